//! `drift`, and what `probe --save` keeps for it.

use super::context::TestContext;
use super::native::Environment;

const OLD: &str = "schema = 1\n[driver]\nversion = \"580.65.06\"\ncuda = \"13.0\"\n[[gpu]]\nname = \"NVIDIA A100-SXM4-80GB\"\ncompute_capability = \"8.0\"\n[[gpu]]\nname = \"NVIDIA A100-SXM4-80GB\"\ncompute_capability = \"8.0\"\n[loader.variables]\nLD_LIBRARY_PATH = \"/opt/cuda/lib64\"\n[loader.libraries]\n\"libcuda.so.1\" = \"/usr/lib/libcuda.so.580.65.06\"\n";

#[test]
fn two_looks_at_a_machine() {
    let context = TestContext::new();
    context.write("old.toml", OLD);
    let run = context.run(&["drift", "old.toml", "old.toml"]).expect(0);
    assert_eq!(run.stdout, "nothing changed\n");
    let new = OLD
        .replace("\"580.65.06\"\ncuda = \"13.0\"", "\"535.129.03\"\ncuda = \"12.2\"")
        .replacen("[[gpu]]\nname = \"NVIDIA A100-SXM4-80GB\"\ncompute_capability = \"8.0\"\n", "", 1)
        .replace("/opt/cuda/lib64", "/opt/old/lib64")
        .replace("libcuda.so.580.65.06", "libcuda.so.535.129.03");
    context.write("new.toml", &new);
    let run = context.run(&["drift", "old.toml", "new.toml"]).expect(1);
    insta::assert_snapshot!("drift", run.shown());
    let json = context.run(&["drift", "old.toml", "new.toml", "--json"]).expect(1).json();
    let facts: Vec<&str> =
        json["changes"].as_array().unwrap().iter().map(|c| c["fact"].as_str().unwrap()).collect();
    assert_eq!(facts, ["gpus", "driver", "variable LD_LIBRARY_PATH"]);
    for key in ["after", "severity", "effect"] {
        assert!(json["changes"][0][key].is_string(), "{key}");
    }
    // The other way round nothing is lost.
    context.run(&["drift", "new.toml", "old.toml"]).expect(0);
    context.run(&["drift", "old.toml", "new.toml", "--prefix", "/v"]).expect(2);
    let run = context.run(&["drift", "nowhere.toml"]).expect(2);
    assert!(run.flat().contains("write one with `envlock probe --save host.toml`"), "{}", run.shown());
}

#[test]
fn this_machine_now() {
    let Some(mut env) = Environment::new() else { return };
    let prefix = env.context.dir.path().join("env").display().to_string();
    env.context.run(&["probe", "--save", "old.toml", "--prefix", &prefix]).expect(0);
    assert!(env.context.read("old.toml").contains("[environment.packages]"));
    // Read again as a host file.
    env.context.run(&["plan", "--host", "old.toml"]);
    env.context.run(&["drift", "old.toml"]).expect(0);
    env.context.set("LD_LIBRARY_PATH", "/opt/old/lib");
    std::fs::write(env.site.join("torch/version.py"), "__version__ = '2.9.1+cu126 '\n").unwrap();
    let run = env.context.run(&["drift", "old.toml"]).expect(0);
    assert!(
        run.flat().contains("warning: variable LD_LIBRARY_PATH: none -> /opt/old/lib"),
        "{}",
        run.shown()
    );
    assert!(run.flat().contains("the files of its packages changed"), "{}", run.shown());
    env.record("six", "1.17.0", &[]);
    let run = env.context.run(&["drift", "old.toml"]).expect(0);
    assert!(run.flat().contains("info: package six: none -> 1.17.0: installed"), "{}", run.shown());
    // Without an environment in the host file none is compared.
    env.context.run(&["probe", "--save", "old.toml"]).expect(0);
    env.context.run(&["drift", "old.toml"]).expect(0);
}

/// What the lock needs decides whether a change breaks something.
#[test]
fn what_breaks_the_lock() {
    let context = TestContext::new().with_shipped_registry();
    context.write("old.toml", OLD);
    context.write(
        "new.toml",
        &OLD.replace("580.65.06", "470.57.02").replace("cuda = \"13.0\"", "cuda = \"11.4\""),
    );
    context.run(&["drift", "old.toml", "new.toml"]).expect(0);
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--host", "old.toml", "--only-index", "pypi"])
        .expect(0);
    let run = context.run(&["drift", "old.toml", "new.toml"]).expect(1);
    assert!(run.flat().contains("error: driver: 580.65.06 -> 470.57.02: the lock ran before and does not run now: driver 470.57.02"), "{}", run.shown());
    context.run(&["drift", "new.toml", "old.toml"]).expect(0);
    // A driver whose library was left behind, or that supports the GPU no more.
    context.write("half.toml", &OLD.replacen("580.65.06", "590.48.01", 1));
    let half = context.run(&["drift", "old.toml", "half.toml"]).expect(1);
    assert!(half.flat().contains("its version is not that of the driver"), "{}", half.shown());
}

#[test]
fn a_driver_that_is_too_new_breaks_the_lock() {
    let context = TestContext::new().with_shipped_registry();
    let volta = |driver: &str| {
        format!("schema = 1\n[driver]\nversion = \"{driver}\"\n[[gpu]]\nname = \"Tesla V100-SXM2-16GB\"\n")
    };
    context.write("old.toml", &volta("580.65.06"));
    context.write("new.toml", &volta("590.48.01"));
    context
        .run(&["resolve", "torch==2.7.1", "--stack-only", "--host", "old.toml", "--only-index", "pypi"])
        .expect(0);
    let run = context.run(&["drift", "old.toml", "new.toml"]).expect(1);
    assert!(run.flat().contains("driver 590.48.01 does not support Tesla V100"), "{}", run.shown());
}
