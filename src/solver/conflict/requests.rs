//! What the user asked for.

use pep508_rs::VersionOrUrl;

use super::Telling;
use crate::model::request::UserRequirement;
use crate::solver::explain::span;
use crate::solver::node::Node;
use crate::solver::tables::is_stack_package;

impl Telling<'_, '_> {
    /// What the user asked for, last.
    pub(super) fn requests(&mut self) {
        let p = self.problem;
        let asked: Vec<Node> = self
            .leaves
            .needs
            .keys()
            .filter(|(parent, _)| *parent == Node::Root)
            .map(|(_, d)| d.clone())
            .collect();
        for node in asked {
            match &node {
                Node::Package(name) | Node::Build(name) | Node::Extra(name, _) => {
                    if let Some(user) = p.request.find(name) {
                        let text = crate::model::text::clean(&user.requirement.to_string(), 100);
                        self.say(9, format!("you ask for {text}"), &[name], user.origin.clone());
                        self.empty_request(name);
                    }
                    if matches!(node, Node::Build(_))
                        && let Some(limit) = &p.request.nccl
                    {
                        self.say(
                            9,
                            format!("you ask for NCCL {}", limit.value),
                            &[name],
                            limit.origin.clone(),
                        );
                    }
                }
                Node::Variant => {
                    if let Some(limit) = &p.request.cuda {
                        self.say(
                            9,
                            format!("you ask for CUDA {}", limit.value),
                            &["cuda"],
                            limit.origin.clone(),
                        );
                    }
                    if let Some(limit) = &p.request.variant {
                        self.say(
                            9,
                            format!("you pin the variant {}", limit.value),
                            &["variant"],
                            limit.origin.clone(),
                        );
                        if !p.variants.iter().any(|v| v.name == limit.value) {
                            let names: Vec<_> = p.variants.iter().map(|v| v.name.clone()).collect();
                            self.say(
                                7,
                                format!("the variants for {} are {}", p.platform, names.join(", ")),
                                &["variant"],
                                "registry",
                            );
                        }
                    }
                }
                Node::Cudnn => {
                    if let Some(limit) = &p.request.cudnn {
                        self.say(
                            9,
                            format!("you ask for cuDNN {}", limit.value),
                            &["cudnn"],
                            limit.origin.clone(),
                        );
                    }
                }
                Node::StackIndex => {
                    if let Some(limit) = &p.request.only_index {
                        self.say(
                            10,
                            format!("only the index {} may be used", limit.value),
                            &["index"],
                            limit.origin.clone(),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    /// That all releases which a request admits were withdrawn.
    fn only_yanked(&self, user: &UserRequirement) -> Option<String> {
        let name: &str = user.requirement.name.as_ref();
        let specifiers = match &user.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        };
        if is_stack_package(name) {
            return None;
        }
        let candidates = self.problem.candidates(name).ok()?;
        let admitted =
            candidates.iter().filter(|c| specifiers.is_none_or(|s| s.contains(&c.release.version)));
        let yanked: Vec<_> = admitted.filter(|c| c.release.yanked).map(|c| &c.release.version).collect();
        let verb = if yanked.len() == 1 { "is" } else { "are" };
        (!yanked.is_empty()).then(|| {
            format!(
                "{name} {} {verb} yanked: withdrawn by its maintainers, taken only where pinned",
                span(&yanked)
            )
        })
    }

    /// A request that no version satisfies says what there is.
    pub(super) fn empty_request(&mut self, name: &str) {
        let p = self.problem;
        let Some(user) = p.request.find(name) else { return };
        let Ok(Ok(list)) = p.requirement(&user.requirement) else { return };
        if list.iter().any(|(n, s)| *n == Node::package(name) && s.is_empty()) {
            let text = self.only_yanked(user).unwrap_or_else(|| self.why_nothing(name));
            self.say(6, text, &[name], if is_stack_package(name) { "registry" } else { "index" });
        } else if list.iter().any(|(n, s)| *n == Node::build(name) && s.is_empty())
            && let Some((_, versions)) = list.iter().find(|(n, _)| *n == Node::package(name))
        {
            let table = &p.stack[name];
            let mut flavours: Vec<&str> = Vec::new();
            for build in table.builds.iter().filter(|b| versions.contains(&b.version_ordinal)) {
                let variant = p.variants[build.variant as usize].name.as_str();
                if !flavours.contains(&variant) {
                    flavours.push(variant);
                }
            }
            let text = format!(
                "{} is built as {} for {}",
                p.name_versions(&Node::package(name), versions),
                flavours.join(", "),
                p.platform
            );
            self.say(6, text, &[name, "variant"], "registry");
        }
    }
}
