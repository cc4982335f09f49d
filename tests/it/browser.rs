//! A page in headless Chromium.

use std::process::Command;

use super::context::{TestContext, skipped};

/// What a script tells of a page of the project by `tell(VALUE)`, in a window of `WIDTH,HEIGHT`; `None` where no browser is
/// installed.
pub fn seen_in_browser(
    context: &TestContext,
    page: &str,
    window: &str,
    script: &str,
) -> Option<serde_json::Value> {
    const TELL: &str = "const tell = (value) => { const pre = document.createElement('pre'); pre.id = 'seen'; \
                        pre.textContent = btoa(JSON.stringify(value)); document.body.append(pre); };";
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let has =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let Some(browser) = names.into_iter().find(has) else {
        skipped("chromium is not installed: pages are not shown");
        return None;
    };
    let whole = context.read(page);
    let shown = whole.replace("</body>", &format!("<script>{TELL}{script}</script></body>"));
    assert_ne!(shown, whole, "the page has no body");
    let shown = context.write(&format!("shown-{page}"), &shown);
    let profile = context.dir.path().join("profile");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.arg(format!("--window-size={window}")).arg("--dump-dom");
    command.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", shown.display()));
    let out = command.output().unwrap();
    let dom = String::from_utf8_lossy(&out.stdout).into_owned();
    let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split('<').next());
    let Some(seen) = seen else { panic!("{}\n{dom}", String::from_utf8_lossy(&out.stderr)) };
    let seen = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, seen).unwrap();
    Some(serde_json::from_slice(&seen).unwrap())
}
