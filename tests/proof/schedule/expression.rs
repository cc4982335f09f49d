//! An evaluator of the expressions that are exported: the part of CEL and of ClassAds that envlock writes. What goes wrong is an error,
//! as it is for the schedulers; none is absorbed.

use std::collections::BTreeMap;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    /// Three numbers.
    Semver(Vec<u64>),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// Evaluates an expression.
pub fn evaluate(text: &str, names: &BTreeMap<String, Value>) -> Result<Value, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, names: names.clone() };
    let value = parser.any()?;
    match parser.at == tokens.len() {
        true => Ok(value),
        false => Err(format!("`{}` is left", tokens[parser.at])),
    }
}

/// A version as Kubernetes' library reads it: three numbers without leading zeros.
pub fn semver(text: &str) -> Result<Vec<u64>, String> {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    match parts.len() == 3 && parts.iter().all(is_number) {
        true => Ok(parts.iter().map(|part| part.parse().unwrap()).collect()),
        false => Err(format!("`{text}` is not a version")),
    }
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if first.is_ascii_digit() {
            rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '\'' || first == '"' {
            rest[1..].find(first).ok_or("a text without an end")? + 2
        } else {
            let two = ["&&", "||", "==", ">=", "<="].iter().any(|two| rest.starts_with(two));
            if two { 2 } else { 1 }
        };
        out.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(out)
}

struct Parser<'t> {
    tokens: &'t [String],
    at: usize,
    names: BTreeMap<String, Value>,
}

impl Parser<'_> {
    fn next_is(&mut self, token: &str) -> bool {
        let is = self.tokens.get(self.at).is_some_and(|own| own == token);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        let found = self.tokens.get(self.at).cloned();
        if self.next_is(token) { Ok(()) } else { Err(format!("`{token}` expected, {found:?}")) }
    }

    /// `a || b`. As nothing is absorbed, the right side of what is decided is read and not evaluated.
    fn any(&mut self) -> Result<Value, String> {
        let mut value = self.all()?;
        while self.next_is("||") {
            value = match (value, self.later(Parser::all)?) {
                (Value::Bool(true), _) => Value::Bool(true),
                (Value::Bool(false), right) => right?,
                other => return Err(format!("`||` of {other:?}")),
            };
        }
        Ok(value)
    }

    fn all(&mut self) -> Result<Value, String> {
        let mut value = self.comparison()?;
        while self.next_is("&&") {
            value = match (value, self.later(Parser::comparison)?) {
                (Value::Bool(false), _) => Value::Bool(false),
                (Value::Bool(true), right) => right?,
                other => return Err(format!("`&&` of {other:?}")),
            };
        }
        Ok(value)
    }

    /// What follows: its value, or the error that matters only if it is needed. After an error the end of the operand is looked for.
    fn later(
        &mut self,
        read: fn(&mut Self) -> Result<Value, String>,
    ) -> Result<Result<Value, String>, String> {
        let start = self.at;
        let value = read(self);
        if value.is_err() {
            self.at = start;
            let mut depth = 0_i32;
            while let Some(token) = self.tokens.get(self.at) {
                match token.as_str() {
                    "(" | "[" => depth += 1,
                    ")" | "]" | "," | "||" | "&&" if depth == 0 => break,
                    ")" | "]" => depth -= 1,
                    _ => {}
                }
                self.at += 1;
            }
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Value, String> {
        let left = self.postfix()?;
        if self.next_is("in") {
            let right = self.postfix()?;
            return match (right, left) {
                (Value::List(all), left) => Ok(Value::Bool(all.contains(&left))),
                (Value::Map(all), Value::Text(key)) => Ok(Value::Bool(all.contains_key(&key))),
                other => Err(format!("`in` of {other:?}")),
            };
        }
        for operator in ["==", ">=", "<=", "<", ">"] {
            if self.next_is(operator) {
                let right = self.postfix()?;
                let number = |value: &Value| match value {
                    Value::Int(number) => Ok(*number as f64),
                    Value::Real(number) => Ok(*number),
                    other => Err(format!("`{operator}` of {other:?}")),
                };
                if let (Value::Text(left), Value::Text(right), "==") = (&left, &right, operator) {
                    return Ok(Value::Bool(left == right));
                }
                let (left, right) = (number(&left)?, number(&right)?);
                return Ok(Value::Bool(match operator {
                    "==" => left == right,
                    ">=" => left >= right,
                    "<=" => left <= right,
                    "<" => left < right,
                    _ => left > right,
                }));
            }
        }
        Ok(left)
    }

    fn postfix(&mut self) -> Result<Value, String> {
        let mut value = self.primary()?;
        loop {
            if self.next_is("[") {
                let key = self.any()?;
                self.expect("]")?;
                let (Value::Map(map), Value::Text(key)) = (value, key) else {
                    return Err("no map".to_owned());
                };
                // A domain that nobody publishes is an empty map.
                value = map.get(&key).cloned().unwrap_or(Value::Map(BTreeMap::new()));
            } else if self.next_is(".") {
                let name = self.tokens.get(self.at).cloned().unwrap_or_default();
                self.at += 1;
                value = match self.next_is("(") {
                    true => self.method(value, &name)?,
                    false => match value {
                        Value::Map(map) => map.get(&name).cloned().ok_or(format!("no such key: {name}"))?,
                        other => return Err(format!("no `{name}` in {other:?}")),
                    },
                };
            } else {
                return Ok(value);
            }
        }
    }

    fn method(&mut self, value: Value, name: &str) -> Result<Value, String> {
        let arguments = self.arguments()?;
        let Value::Semver(own) = value else { return Err(format!("no method `{name}`")) };
        let number = |place: usize| Ok(Value::Int(i64::try_from(own[place]).unwrap()));
        match (name, arguments.as_slice()) {
            ("major", []) => number(0),
            ("minor", []) => number(1),
            ("compareTo", [Value::Semver(other)]) => Ok(Value::Int(own.cmp(other) as i64)),
            _ => Err(format!("no such overload: {name} {arguments:?}")),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        while !self.next_is(")") {
            all.push(self.any()?);
            self.next_is(",");
        }
        Ok(all)
    }

    fn primary(&mut self) -> Result<Value, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("the end")?;
        self.at += 1;
        match token.as_str() {
            "(" => {
                let value = self.any()?;
                self.expect(")")?;
                Ok(value)
            }
            "[" => {
                let mut all = Vec::new();
                while !self.next_is("]") {
                    all.push(self.any()?);
                    self.next_is(",");
                }
                Ok(Value::List(all))
            }
            "true" => Ok(Value::Bool(true)),
            "cel" => self.bind(),
            "semver" => {
                self.expect("(")?;
                match self.arguments()?.as_slice() {
                    [Value::Text(text)] => semver(text).map(Value::Semver),
                    other => Err(format!("semver of {other:?}")),
                }
            }
            text if text.starts_with(['\'', '"']) => Ok(Value::Text(text[1..text.len() - 1].to_owned())),
            number if number.contains('.') => number.parse().map(Value::Real).map_err(|e| format!("{e}")),
            number if number.starts_with(|c: char| c.is_ascii_digit()) => {
                number.parse().map(Value::Int).map_err(|e| format!("{e}"))
            }
            name => self.names.get(name).cloned().ok_or(format!("undeclared reference to `{name}`")),
        }
    }

    /// `cel.bind(name, value, expression)`
    fn bind(&mut self) -> Result<Value, String> {
        for token in [".", "bind", "("] {
            self.expect(token)?;
        }
        let name = self.tokens[self.at].clone();
        self.at += 1;
        self.expect(",")?;
        let value = self.any()?;
        self.expect(",")?;
        let before = self.names.insert(name.clone(), value);
        let result = self.any();
        match before {
            Some(before) => self.names.insert(name, before),
            None => self.names.remove(&name),
        };
        let result = result?;
        self.expect(")")?;
        Ok(result)
    }
}

/// The values of Kubernetes' own tests. Source: kubernetes, staging/src/k8s.io/apiserver/pkg/cel/library/semver_test.go.
#[test]
fn versions_are_those_of_kubernetes_library() {
    for (expression, expected) in [
        ("semver('1.2.3').compareTo(semver('1.2.3'))", Some(Value::Int(0))),
        ("semver('1.0.0').compareTo(semver('1.2.3'))", Some(Value::Int(-1))),
        ("semver('1.2.3').compareTo(semver('1.0.0'))", Some(Value::Int(1))),
        ("semver('1.2.3').major()", Some(Value::Int(1))),
        ("semver('1.2.3').minor()", Some(Value::Int(2))),
        ("semver('v1.0')", None),
        ("semver('01.01.01')", None),
        ("semver('580.65.06')", None),
        ("semver('1')", None),
        ("semver('1.1')", None),
        ("semver('')", None),
        ("semver(' 1.0.0')", None),
        // What is not there is an error, and a guard keeps it from being one.
        ("device.none", None),
        ("'none' in device && device.none == 1", Some(Value::Bool(false))),
        ("cel.bind(a, device['none'], 'b' in a && a.b.major() == 1 || 1 in [1, 2])", Some(Value::Bool(true))),
    ] {
        let names = BTreeMap::from([("device".to_owned(), Value::Map(BTreeMap::new()))]);
        assert_eq!(evaluate(expression, &names).ok(), expected, "{expression}");
    }
}
