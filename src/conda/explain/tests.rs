//! Contradictions of generated channels, and what is told of them.

use super::*;

use crate::conda::repodata::Repodata;

/// A record: name, version, build, what it depends on, what it constrains.
type Row<'r> = (&'r str, &'r str, &'r str, &'r [&'r str], &'r [&'r str]);

fn channel(rows: &[Row<'_>]) -> Records {
    let mut packages = serde_json::Map::new();
    for (name, version, build, depends, constrains) in rows {
        let record = serde_json::json!({
            "name": name, "version": version, "build": build, "build_number": 0, "subdir": "linux-64", "size": 1,
            "depends": depends, "constrains": constrains, "sha256": "0".repeat(64), "md5": "0".repeat(32),
        });
        packages.insert(format!("{name}-{version}-{build}.conda"), record);
    }
    let text = serde_json::json!({"packages": {}, "packages.conda": packages}).to_string();
    let names: Vec<String> = rows.iter().map(|row| row.0.to_owned()).collect();
    let repodata = Repodata::parse("conda-forge", "linux-64", text.into()).unwrap();
    Records::reachable(&[repodata], names).unwrap()
}

fn written(spec: &str) -> Written {
    Written { text: spec.to_owned(), origin: Origin::Option("test") }
}

/// The texts of the facts about specs that a person asked for.
fn told(records: &Records, specs: &[&str]) -> Vec<String> {
    let question = CondaQuestion {
        specs: specs.iter().map(|spec| (*spec).to_owned()).collect(),
        ..CondaQuestion::default()
    };
    let asked = Asked {
        without_gpu: "the machine has no NVIDIA GPU",
        written: &specs.iter().map(|spec| Some(written(spec))).collect::<Vec<_>>(),
        drivers: &[],
        driver: "the driver",
        target: "default",
        channels: &["conda-forge".to_owned()],
        limit: &|| Duration::from_secs(60),
    };
    let explained = explain(records, &question, &asked).unwrap();
    let reasons = explained.conflict.reasons.into_iter();
    let facts = reasons.filter(|reason| !matches!(reason.kind, ReasonKind::Asked { .. }));
    facts.map(|reason| reason.text).collect()
}

#[test]
fn what_is_told_excludes_each_other() {
    let python: &[&str] = &["python"];
    let rows: &[Row<'_>] = &[
        ("python", "3.12.4", "0_cpython", &[], &["python_abi 3.12.* *_cp312"]),
        ("python", "3.13.1", "0_cp313", &["python_abi 3.13.* *_cp313"], &[]),
        ("python", "3.14.0", "0_cp314", &["python_abi 3.14.* *_cp314"], &[]),
        ("python_abi", "3.12", "8_cp312", &[], &["python 3.12.* *_cpython"]),
        ("python_abi", "3.13", "8_cp313", &[], &["python 3.13.* *_cp313"]),
        ("python_abi", "3.14", "8_cp314", &[], &["python 3.14.* *_cp314"]),
        // Recipes of the newer kind name Python without a bound, and the ABI decides.
        ("only-14", "2.0", "py314", &["python", "python_abi 3.14.* *_cp314"], &[]),
        ("but-13", "1.0", "py312", &["python", "python_abi 3.12.* *_cp312"], &[]),
        ("but-13", "1.0", "py314", &["python", "python_abi 3.14.* *_cp314"], &[]),
        ("classic", "1.0", "py312", &["python >=3.12,<3.13.0a0", "python_abi 3.12.* *_cp312"], &[]),
        ("blas", "3.9", "mkl", &[], &[]),
        ("blas", "3.9", "openblas", &[], &[]),
        ("fast", "1.0", "0", &["blas * mkl"], &[]),
        ("free", "1.0", "0", &["tool"], &[]),
        ("tool", "1.0", "0", &["blas * openblas"], &[]),
        // The newest of one names a bound, the older ones others: no one of them is needed by all.
        ("wide", "2.0", "0", &["lib 3"], &[]),
        ("wide", "1.0", "0", &["lib 1"], &[]),
        ("lib", "1", "0", &[], &[]),
        ("lib", "2", "0", &[], &[]),
        ("lib", "3", "0", &[], &[]),
        ("middle", "1.0", "0", &["lib 2"], &[]),
        ("torn", "1.0", "0", &["fast", "free"], &[]),
        ("torn", "0.9", "0", &["fast", "tool"], &[]),
        ("missing-part", "1.0", "0", &["nowhere >=3"], &[]),
        ("plain", "1.0", "0", python, &[]),
        // What bounds a package that it does not need.
        ("bounding", "1.0", "0", &[], &["lib >=9"]),
        ("refusing", "1.0", "0", &["helper"], &[]),
        ("helper", "1.0", "0", &[], &["refusing >=2"]),
        // A chain whose end is missing, and one that leads back to its start.
        ("chain0", "1.0", "0", &["chain1"], &[]),
        ("chain1", "1.0", "0", &["chain2"], &[]),
        ("chain2", "1.0", "0", &["chain3"], &[]),
        ("chain3", "1.0", "0", &["chain4"], &[]),
        ("chain4", "1.0", "0", &["nowhere"], &[]),
        ("circle", "3.0", "0", &["arc", "arc !=2"], &[]),
        ("arc", "3.0", "0", &["circle >=1", "circle 2.*"], &[]),
        // What is needed needs what the package does not admit.
        ("strict", "2.0", "0", &["user-of-lib"], &["lib 1"]),
        ("strict", "1.0", "0", &["nowhere"], &[]),
        ("user-of-lib", "1.0", "0", &["lib 3"], &[]),
        // One requirement leads back, and the other explains it.
        ("loop", "1.0", "0", &["missing-part", "back"], &[]),
        ("back", "1.0", "0", &["loop"], &[]),
        ("long", "1", "0", &[], &[]),
        ("long", "2", "0", &[], &[]),
        ("long", "3", "0", &[], &[]),
        ("long", "4", "0", &[], &[]),
        ("long", "6", "0", &[], &[]),
        // Two builds of one version, of which one has another cause.
        ("dual", "1.0", "cuda", &["__cuda >=12"], &[]),
        ("dual", "1.0", "cpu", &["lib >=9"], &[]),
        ("old-glibc", "1.0", "0", &["__glibc <2.20"], &[]),
        // Three that hold by twos.
        ("x", "1", "0", &["p <3"], &[]),
        ("y", "1", "0", &["p >1"], &[]),
        ("z", "1", "0", &["p !=2"], &[]),
        ("p", "1", "0", &[], &[]),
        ("p", "2", "0", &[], &[]),
        ("p", "3", "0", &[], &[]),
    ];
    let records = channel(rows);
    for (specs, expected) in [
        (
            &["python 3.13.*", "only-14"][..],
            &[
                "only-14 2.0 needs python_abi 3.14.* *_cp314, python_abi 3.14 admits only python 3.14.* *_cp314",
            ][..],
        ),
        (&["python 3.13.*", "but-13"], &["but-13 can only be installed with python 3.12, 3.14"]),
        (&["python 3.14.*", "classic"], &["classic 1.0 needs python >=3.12,<3.13.0a0"]),
        (
            &["fast", "free"],
            &["fast 1.0 needs blas * mkl", "free 1.0 needs tool, tool 1.0 needs blas * openblas"],
        ),
        (
            &["wide", "middle"],
            &["wide can only be installed with lib 1, 3", "middle can only be installed with lib 2"],
        ),
        (&["wide", "lib 2"], &["wide can only be installed with lib 1, 3"]),
        (
            &["torn"],
            &[
                "fast 1.0 needs blas * mkl",
                "free 1.0 needs tool, tool 1.0 needs blas * openblas",
                "torn 1.0, the newest, needs fast",
                "torn 1.0, the newest, needs free",
            ],
        ),
        (&["missing-part"], &["no package `nowhere` in conda-forge", "missing-part 1.0 needs nowhere >=3"]),
        (
            &["x", "y", "z"],
            &["x can only be installed with p 1 to 2", "y with z can only be installed with p 3"],
        ),
        (&["bounding", "lib"], &["bounding 1.0 admits only lib >=9", "conda-forge has lib 1, 2, 3"]),
        (&["refusing"], &["helper 1.0 admits only refusing >=2", "refusing 1.0 needs helper"]),
        (
            &["chain0"],
            &[
                "no package `nowhere` in conda-forge",
                "chain4 1.0 needs nowhere",
                "chain3 1.0 needs chain4",
                "chain2 1.0 needs chain3",
                "chain1 1.0 needs chain2",
                "chain0 1.0 needs chain1",
            ],
        ),
        (
            &["circle"],
            &["conda-forge has circle 3.0", "arc 3.0 needs circle 2.*", "circle 3.0 needs arc !=2"],
        ),
        (
            &["strict"],
            &[
                "user-of-lib 1.0 needs lib 3",
                "strict 2.0, the newest, admits only lib 1",
                "strict 2.0, the newest, needs user-of-lib",
            ],
        ),
        (
            &["loop"],
            &[
                "no package `nowhere` in conda-forge",
                "missing-part 1.0 needs nowhere >=3",
                "loop 1.0 needs missing-part",
            ],
        ),
        (&["lib 2 cuda*"], &["conda-forge has lib 1, 2, 3, in other builds"]),
        (&["long 5"], &["conda-forge has long 1 to 6, none of which fits"]),
        (&["long 4 cuda*"], &["conda-forge has long 1 to 6, in other builds"]),
        (&["lib 9 *0"], &["conda-forge has lib 1, 2, 3"]),
        (&["old-glibc"], &["old-glibc 1.0 needs __glibc <2.20, and the machine has no `__glibc`"]),
        (&["__cuda >=12"], &["`__cuda >=12` is needed, and the machine has no NVIDIA GPU"]),
        (
            &["dual"],
            &[
                "dual 1.0 cuda needs `__cuda >=12` (no other build will do), and the machine has no NVIDIA GPU",
            ],
        ),
        // Two that a person asked for of one package need no more words.
        (&["p 1", "p 2"], &[]),
    ] {
        assert_eq!(told(&records, specs), expected, "{specs:?}");
    }
}

/// Thirteen packages of twelve versions, no two of which may have the same: a search that has no end in sight ends in time,
/// and so does what would explain it.
#[test]
fn a_hard_search_ends_in_time() {
    use std::time::Instant;
    let names: Vec<String> = (0..13).map(|i| format!("p{i}")).collect();
    let versions: Vec<String> = (1..13).map(|v| v.to_string()).collect();
    let others = |own: &str, version: &str| -> Vec<String> {
        names.iter().filter(|name| *name != own).map(|name| format!("{name} !={version}")).collect()
    };
    let others = &others;
    let excluded: Vec<(&String, &String, Vec<String>)> = names
        .iter()
        .flat_map(|name| versions.iter().map(move |version| (name, version, others(name, version))))
        .collect();
    let constrains: Vec<Vec<&str>> =
        excluded.iter().map(|(_, _, others)| others.iter().map(String::as_str).collect()).collect();
    let rows: Vec<Row<'_>> = excluded
        .iter()
        .zip(&constrains)
        .map(|((name, version, _), constrains)| {
            (name.as_str(), version.as_str(), "0", &[][..], &constrains[..])
        })
        .collect();
    let records = channel(&rows);
    let question = CondaQuestion { specs: names.clone(), ..CondaQuestion::default() };
    let start = Instant::now();
    assert_eq!(records.solve(&question, Duration::from_secs(1)).err(), Some(CondaError::TooLong));
    let asked = Asked {
        without_gpu: "",
        written: &names.iter().map(|name| Some(written(name))).collect::<Vec<_>>(),
        drivers: &[],
        driver: "the driver",
        target: "default",
        channels: &["conda-forge".to_owned()],
        limit: &|| Duration::from_secs(2).saturating_sub(start.elapsed()),
    };
    assert_eq!(explain(&records, &question, &asked).err(), Some(CondaError::TooLong));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}
