//! A lock of each format that was ever written is read, and one of a format to come is refused by name.

use std::path::PathBuf;

use super::context::TestContext;

fn kept() -> Vec<(String, String)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/locks"));
    let mut locks: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name.trim_end_matches(".lock").to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    locks.sort();
    locks
}

#[test]
fn a_lock_of_each_format_is_read() {
    let locks = kept();
    let formats: Vec<&str> = locks.iter().map(|(format, _)| format.as_str()).collect();
    assert_eq!(formats, ["1.0.0", "1.1.0", "1.2.0", "2.0.0"]);
    for (format, text) in &locks {
        assert!(text.contains(&format!("format = \"{format}\"")), "{format}");
        let context = TestContext::new();
        context.write("envlock.lock", text);
        // That of 1.2 has the packages in uv.lock, which is not there.
        let code = if format == "1.2.0" { 2 } else { 0 };
        for command in [&["tree"][..], &["export", "requirements.txt"]] {
            context.run(command).expect(code);
        }
        context.run(&["diff", "envlock.lock", "envlock.lock"]).expect(0);
        let lock = envlock::lockfile::parse(text).unwrap();
        let stated = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(stated > 10 && lock.format.to_string() == *format, "{format}");
    }
}

#[test]
fn a_format_to_come_is_refused_by_name() {
    for (format, text) in kept() {
        let context = TestContext::new();
        for newer in ["3.0.0", "99.1.0"] {
            let line = format!("format = \"{format}\"");
            context.write("envlock.lock", &text.replace(&line, &format!("format = \"{newer}\"")));
            for command in
                [&["tree"][..], &["verify"], &["sync"], &["resolve", "--locked"], &["export", "pylock.toml"]]
            {
                let run = context.run(command);
                assert_eq!(run.code, 2, "{command:?}: {}", run.shown());
                let text = run.flat();
                assert!(
                    text.contains(&format!("format {newer}")) && text.contains("hint:"),
                    "{}",
                    run.shown()
                );
            }
        }
    }
}
