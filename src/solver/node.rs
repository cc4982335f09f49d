//! The nodes of the dependency graph: packages and virtual packages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::model::conflict::Party;

/// A node of the graph. Its candidates are numbered from zero; see [`super::tables`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Node {
    /// The request.
    Root,
    /// The host's driver: one candidate.
    Driver,
    /// One GPU of the host: one candidate each.
    Gpu(usize),
    /// The host's C library: one candidate.
    Glibc,
    /// The Python series.
    Python,
    /// The patch release of the Python series: candidate `100 * i + n` is patch release `n` of the `i`th series.
    Patch,
    /// The CUDA variant shared by all builds of the stack.
    Variant,
    /// The cuDNN release; candidate 0 is "none or unknown".
    Cudnn,
    /// The index of the stack's wheels: `pypi` or a pytorch sub-index.
    StackIndex,
    /// A build (version, variant, index) of a stack package.
    Build(Arc<str>),
    /// A package: for stack packages its public version, otherwise a release on its index page.
    Package(Arc<str>),
    /// A package with an extra.
    Extra(Arc<str>, Arc<str>),
    /// The user's constraints on a package: one candidate.
    Bound(Arc<str>),
    /// The registry row of a framework other than torch.
    Runtime(Arc<str>),
    /// A file that several packages install: candidate `n` is the `n`th package.
    SameFile(usize),
    /// An advisory that constrains one package if another is selected. Candidate 0: the constraint is violated;
    /// candidate 1: the advisory's package is selected.
    Advisory(usize),
    /// What is better than in another answer: candidate `n` is the `n`th of [`super::memory::Wish::Better`].
    Better,
}

/// The candidate chosen for each node.
pub(super) type Selected = BTreeMap<Node, u32>;

impl Node {
    pub(super) fn package(name: &str) -> Node {
        Node::Package(Arc::from(name))
    }

    pub(super) fn build(name: &str) -> Node {
        Node::Build(Arc::from(name))
    }

    /// The package that the node is, with or without an extra.
    pub(super) fn package_name(&self) -> Option<&str> {
        match self {
            Node::Package(name) | Node::Extra(name, _) => Some(name),
            _ => None,
        }
    }

    /// The party of a conflict that the node represents.
    pub(super) fn party(&self) -> Option<Party> {
        Some(match self {
            Node::Root | Node::Advisory(_) | Node::SameFile(_) | Node::Better => return None,
            Node::Driver => Party::Driver,
            Node::Gpu(_) => Party::Gpu,
            Node::Glibc => Party::Glibc,
            Node::Python | Node::Patch => Party::Python,
            Node::Variant | Node::Runtime(_) => Party::Cuda,
            Node::Cudnn => Party::Cudnn,
            Node::StackIndex => Party::Index,
            Node::Build(name) | Node::Package(name) | Node::Extra(name, _) | Node::Bound(name) => {
                Party::package(&**name)
            }
        })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Root => f.write_str("the request"),
            Node::Driver => f.write_str("__driver"),
            Node::Gpu(i) => write!(f, "__gpu{i}"),
            Node::Glibc => f.write_str("__glibc"),
            Node::Python => f.write_str("python"),
            Node::Patch => f.write_str("python#patch"),
            Node::Variant => f.write_str("cuda"),
            Node::Cudnn => f.write_str("cudnn"),
            Node::StackIndex => f.write_str("#index"),
            Node::Build(name) => write!(f, "{name}#build"),
            Node::Package(name) => f.write_str(name),
            Node::Extra(name, extra) => write!(f, "{name}[{extra}]"),
            Node::Bound(name) => write!(f, "{name}#bound"),
            Node::Runtime(name) => write!(f, "{name}#cuda"),
            Node::SameFile(i) => write!(f, "#file{i}"),
            Node::Advisory(i) => write!(f, "#advisory{i}"),
            Node::Better => f.write_str("#better"),
        }
    }
}
