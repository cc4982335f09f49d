//! What uv is told, written into files of users.

use super::*;

fn pin(package: &str, version: &str, index: Option<(&str, &str)>) -> Pin {
    Pin {
        package: package.to_owned(),
        version: version.to_owned(),
        marker: "sys_platform == 'linux'".to_owned(),
        platform: Platform { os: Os::Linux, arch: Arch::X86_64 },
        python: Python::new(12),
        index: index.map(|(name, url)| (name.to_owned(), url.to_owned())),
    }
}

fn tables() -> UvTables {
    let cu128 = Some(("pytorch-cu128", "https://wheels.example/whl/cu128"));
    UvTables {
        pins: [
            pin("torch", "2.9.1+cu128", cu128),
            pin("nvidia-nccl-cu12", "2.27.5", cu128),
            pin("triton", "3.5.1", None),
        ]
        .into(),
        ..UvTables::default()
    }
}

const PLAIN: &str = "[project]\nname = \"demo\"\ndependencies = [\"torch\"]\n";

#[test]
fn a_project_without_tables_of_uv_gets_them() {
    let text = tables().written_into(PLAIN).unwrap();
    let expected = r#"[project]
name = "demo"
dependencies = ["torch"]

[tool.uv]
constraint-dependencies = [
    "nvidia-nccl-cu12==2.27.5; sys_platform == 'linux'", # envlock
    "torch==2.9.1+cu128; sys_platform == 'linux'", # envlock
    "triton==3.5.1; sys_platform == 'linux'", # envlock
]

[[tool.uv.index]] # envlock
name = "pytorch-cu128"
url = "https://wheels.example/whl/cu128"
explicit = true

[tool.uv.sources]
nvidia-nccl-cu12 = { index = "pytorch-cu128", marker = "sys_platform == 'linux'" } # envlock
torch = { index = "pytorch-cu128", marker = "sys_platform == 'linux'" } # envlock
"#;
    assert_eq!(text, expected);
}

#[test]
fn what_is_written_is_replaced_and_what_the_user_wrote_stays() {
    for text in [
        PLAIN,
        "[tool.uv]\npackage = false # no wheel\n",
        "[tool.uv]\nconstraint-dependencies = [\n    # slow\n    \"numpy<3\", # ours\n    \"scipy\"\n]\n",
        "[tool.uv]\nconstraint-dependencies = [\n    \"numpy<3\",\n]\ndev-dependencies = [\"pytest\"]\n[tool.ruff]\nline-length = 100\n",
        "[[tool.uv.index]]\nname = \"corp\"\nurl = \"https://corp.example/simple\"\n\n[tool.uv.sources]\nmine = { path = \"../mine\" } # a folder\n",
        "[tool.uv.sources]\nmine = { workspace = true }\n[tool.uv]\nmanaged = true\n",
    ] {
        let once = tables().written_into(text).unwrap();
        assert_eq!(tables().written_into(&once).unwrap(), once, "{text}");
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            // The last element of an array may get a comma.
            assert!(once.contains(line), "`{line}` is lost:\n{once}");
        }
        let without = UvTables::default().written_into(&once).unwrap();
        let plain = |text: &str| text.parse::<toml::Table>().unwrap();
        assert_eq!(plain(&without), plain(text), "{once}");
    }
}

#[test]
fn an_index_that_the_user_has_is_used_by_its_name() {
    let text = "[[tool.uv.index]]\nname = \"torch-wheels\"\nurl = \"https://wheels.example/whl/cu128/\"\nexplicit = true\n";
    let written = tables().written_into(text).unwrap();
    assert!(written.contains("torch = { index = \"torch-wheels\","), "{written}");
    assert_eq!(written.matches("[[tool.uv.index]]").count(), 1, "{written}");
    // Another index of that name.
    let text = "[[tool.uv.index]]\nname = \"pytorch-cu128\"\nurl = \"https://corp.example/simple\"\n";
    let written = tables().written_into(text).unwrap();
    assert!(written.contains("torch = { index = \"envlock-pytorch-cu128\","), "{written}");
}

#[test]
fn a_source_of_the_user_stays_or_is_told() {
    let index =
        "[[tool.uv.index]]\nname = \"gpu\"\nurl = \"https://wheels.example/whl/cu128\"\nexplicit = true\n";
    let text = format!("{index}[tool.uv.sources]\nTorch = {{ index = \"gpu\" }}\n");
    let written = tables().written_into(&text).unwrap();
    assert!(written.contains("Torch = { index = \"gpu\" }\n"), "{written}");
    assert_eq!(written.to_lowercase().matches("\ntorch = ").count(), 1, "{written}");
    let text = "[tool.uv.sources]\ntorch = { git = \"https://host.example/torch\" }\n";
    let error = tables().written_into(text).unwrap_err();
    assert!(matches!(error, UvError::OtherSource { .. }), "{error}");
}

#[test]
fn what_uv_does_not_read_is_told() {
    for text in [
        "tool = 1\n",
        "[tool]\nuv = 1\n",
        "[tool.uv]\nsources = 1\n",
        "[tool.uv]\nindex = \"x\"\n",
        "[tool.uv]\nconstraint-dependencies = \"x\"\n",
    ] {
        assert!(matches!(tables().written_into(text), Err(UvError::Type(_))), "{text}");
    }
    assert!(matches!(tables().written_into("x"), Err(UvError::Syntax(_))));
}

#[test]
fn sources_of_the_user_count_where_their_markers_hold() {
    let index = "[[tool.uv.index]]\nname = \"gpu\"\nurl = \"https://wheels.example/whl/cu128\"\n[[tool.uv.index]]\nname = \"plain\"\nurl = \"https://wheels.example/whl/cpu\"\n";
    let with =
        |sources: &str| tables().written_into(&format!("{index}[tool.uv.sources]\ntorch = {sources}\n"));
    for right in [
        "[{ index = \"plain\", marker = \"sys_platform == 'darwin'\" }, { index = \"gpu\", marker = \"sys_platform != 'darwin'\" }]",
        "{ index = \"gpu\", marker = \"platform_machine == 'x86_64'\" }",
    ] {
        assert!(with(right).unwrap().contains(right), "{right}");
    }
    for other in [
        "[{ index = \"gpu\", marker = \"sys_platform == 'darwin'\" }, { index = \"plain\", marker = \"sys_platform == 'linux'\" }]",
        "{ index = \"gpu\", marker = \"sys_platform == 'darwin'\" }",
        "{ index = \"plain\" }",
    ] {
        assert!(matches!(with(other), Err(UvError::OtherSource { .. })), "{other}");
    }
}

#[test]
fn the_form_of_the_file_stays() {
    let text = format!("\u{feff}{}", PLAIN.replace('\n', "\r\n"));
    let written = tables().written_into(&text).unwrap();
    assert!(written.starts_with(&text) && !written.replace("\r\n", "").contains('\n'), "{written:?}");
    assert_eq!(tables().written_into(&written).unwrap(), written);
    // What needs no entry is not touched.
    let inline = "[tool.uv]\nindex = [{ name = \"corp\", url = \"https://corp.example/simple\" }] # ours\nsources = { mine = { path = \"../mine\" } } # near\nconstraint-dependencies = [\"numpy<3\"] # old\n";
    let of_pypi = UvTables { pins: [pin("torch", "2.9.1", None)].into(), ..UvTables::default() };
    let written = of_pypi.written_into(inline).unwrap();
    for line in inline.lines().filter(|line| !line.starts_with("constraint")) {
        assert!(written.contains(line), "{line}: {written}");
    }
    assert!(written.contains("] # old\n"), "{written}");
}

#[test]
fn bounds_of_the_manifest_are_written_too() {
    let bounded = tables().with_bounds(&["numpy<2".to_owned()], &["protobuf>=5".to_owned()]);
    let written = bounded.written_into(PLAIN).unwrap();
    assert!(written.contains("    \"numpy<2\", # envlock\n"), "{written}");
    assert!(written.contains("override-dependencies = [\n    \"protobuf>=5\", # envlock\n]"), "{written}");
    assert_eq!(UvTables::default().written_into(&written).unwrap().trim(), PLAIN.trim());
}

#[test]
fn inline_tables_are_kept() {
    let text = "[tool.uv]\nsources = { mine = { path = \"../mine\" } }\nindex = [{ name = \"corp\", url = \"https://corp.example/simple\" }]\n";
    let written = tables().written_into(text).unwrap();
    let read: toml::Table = written.parse().unwrap();
    let uv = &read["tool"]["uv"];
    assert_eq!(uv["sources"]["mine"]["path"].as_str(), Some("../mine"), "{written}");
    assert_eq!(uv["index"][0]["name"].as_str(), Some("corp"));
    assert_eq!(tables().written_into(&written).unwrap(), written);
}
