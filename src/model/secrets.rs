//! Masks secrets in lines that are quoted: by the name before a value, and by the form of a token that stands alone.
//! Every line of a file that a message shows goes through [`masked`].

/// How a token begins, and how many characters follow at least. The forms are those that the services publish for secret
/// scanning.
const TOKENS: [(&str, usize); 42] = [
    ("sk_test_", 16),
    ("SG.", 20),
    ("xapp-", 10),
    ("xoxe-", 10),
    ("xoxe.", 10),
    ("ATATT3x", 20),
    ("glsa_", 20),
    ("hvs.", 20),
    ("dapi", 32),
    ("shpat_", 16),
    ("gsk_", 20),
    ("pplx-", 20),
    ("GOCSPX-", 16),
    ("lin_api_", 16),
    ("r8_", 20),
    ("dop_v1_", 20),
    ("tskey-", 16),
    ("hf_", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("gldt-", 16),
    ("sk-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("npm_", 30),
    ("pypi-", 40),
    ("dckr_pat_", 16),
    ("nvapi-", 20),
];

/// Headers and words after which everything is secret.
const REST: [&str; 11] = [
    "_authtoken=",
    "age-secret-key-",
    "authorization",
    "cookie:",
    "cookie=",
    "private key",
    "bearer ",
    "hooks.slack.com/",
    "api/webhooks/",
    "sshpass ",
    "wandb login ",
];

/// Parameters of a URL that are masked besides those that hold a login: they may be secret.
const PARAMETERS: [&str; 7] = ["auth", "hmac", "key", "pass", "sas", "session", "ticket"];
/// What is in the names of such parameters, without `-` and `_`.
const PARTS: [&str; 8] =
    ["accesskey", "bearer", "credential", "passphrase", "passw", "secret", "sessionid", "token"];

const MASK: &str = "***";

/// A line with secrets masked: credentials in URLs, values of `..._token=`, `PASSWORD:` and similar names, everything
/// after `Authorization`, `Cookie` or `PRIVATE KEY`, and tokens of known form.
pub fn masked(text: &str) -> String {
    let out = crate::model::text::without_logins(text);
    let lower = out.to_ascii_lowercase();
    let out = match REST.iter().filter_map(|word| Some(lower.find(word)? + word.len())).min() {
        Some(end) if !out[end..].trim().is_empty() => format!("{}{MASK}", &out[..end]),
        _ => out,
    };
    let out = places_masked(&values_masked(&out));
    let mut words = Words {
        is_login: lower.contains("login"),
        is_of_mysql: lower.contains("mysql") || lower.contains("mariadb"),
        ..Words::default()
    };
    out.split(' ').map(|word| words.masked(word)).collect::<Vec<_>>().join(" ")
}

/// What the words before one say of it.
#[derive(Default)]
struct Words<'t> {
    is_login: bool,
    is_of_mysql: bool,
    hide_next: bool,
    hide_quoted: bool,
    named_before: bool,
    after_is: bool,
    open_quote: Option<char>,
    previous: &'t str,
}

impl<'t> Words<'t> {
    fn masked(&mut self, word: &'t str) -> String {
        let previous = std::mem::replace(&mut self.previous, word);
        match self.by_those_before(word, previous) {
            Some(masked) => masked,
            None => self.by_itself(word),
        }
    }

    /// A word that those before it decide about.
    fn by_those_before(&mut self, word: &str, previous: &str) -> Option<String> {
        // `password="two words"`
        if let Some(quote) = self.open_quote {
            if word.contains(quote) {
                self.open_quote = None;
            }
            return Some(MASK.to_owned());
        }
        // `the password is abc`
        if self.hide_next && matches!(word, "is" | "was") {
            return Some(word.to_owned());
        }
        // `mysql -pabc`
        if self.is_of_mysql && word.len() > 2 && word.starts_with("-p") {
            return Some(format!("-p{MASK}"));
        }
        if std::mem::take(&mut self.hide_quoted) && word.starts_with(['\'', '"', '(']) {
            self.open_quote = unclosed_quote(word);
            return Some(MASK.to_owned());
        }
        if std::mem::take(&mut self.hide_next) && !word.is_empty() {
            // `password => abc`
            self.hide_next = ASSIGNS.contains(&word);
            if self.hide_next {
                return Some(word.to_owned());
            }
            self.open_quote = unclosed_quote(word);
            return Some(MASK.to_owned());
        }
        // `api key: abc`
        let is_of_two = word.trim_end_matches([':', '=']).eq_ignore_ascii_case("key")
            && ["api", "secret", "access", "private", "auth"]
                .iter()
                .any(|first| previous.eq_ignore_ascii_case(first));
        if is_of_two {
            self.hide_next = word.ends_with([':', '=']);
            self.named_before = !self.hide_next;
            return Some(word.to_owned());
        }
        if std::mem::take(&mut self.after_is) && is_like_a_secret(word) {
            return Some(MASK.to_owned());
        }
        // `password = abc`, `token is abc123`
        if std::mem::take(&mut self.named_before) {
            self.hide_next = ASSIGNS.contains(&word);
            self.after_is = matches!(word, "is" | "was" | "of" | "to");
            if self.hide_next || self.after_is {
                return Some(word.to_owned());
            }
            // `token abc...`: only what no sentence has.
            let value = word.trim_matches(AROUND);
            if value.len() >= 16
                && is_like_a_secret(value)
                && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
            {
                return Some(MASK.to_owned());
            }
        }
        None
    }

    /// A word that may name a secret, or be one.
    fn by_itself(&mut self, word: &str) -> String {
        // `(--password abc)`
        let bare = word.trim_start_matches(AROUND);
        // `('password', 'abc')`, `set "token" "abc"`
        if word.contains(['\'', '"'])
            && !word.contains(['=', ':'])
            && is_quoted_name(word)
            && names_secret(word)
        {
            self.hide_quoted = true;
            return word.to_owned();
        }
        // `Basic abc` of a header
        if bare.eq_ignore_ascii_case("basic") {
            self.after_is = true;
            return word.to_owned();
        }
        // `<password>abc</password>`
        if let Some(masked) = element_masked(word) {
            return masked;
        }
        let Some(at) = word.find(['=', ':']) else {
            // `--token abc`, `login me password abc` of netrc, `curl -u me:abc`
            let is_option = bare.starts_with('-')
                && (names_secret(bare)
                    || matches!(bare, "-u" | "--user")
                    || self.is_login && matches!(bare, "-p" | "--pass"));
            self.hide_next = is_option || bare == "password";
            self.named_before = !self.hide_next && names_secret(bare);
            return tokens_masked(word);
        };
        let (name, value) = word.split_at(at);
        let plain = name.trim_start_matches(AROUND);
        if names_secret(plain) || (may_name_secret(plain) && is_like_a_token(&value[1..])) {
            // `"api_key": "abc"` has its value in the next word.
            self.hide_next = value[1..].trim_matches(['"', '\'']).is_empty();
            self.open_quote = unclosed_quote(&value[1..]);
            return format!("{name}{}{MASK}", &value[..1]);
        }
        tokens_masked(&parameters_masked(&login_masked(word)))
    }
}

/// What may stand around a name or a value.
const AROUND: [char; 11] = ['(', ')', '[', ']', '{', '}', '<', '>', '\'', '"', '`'];

/// Words between a name and its value.
const ASSIGNS: [&str; 7] = ["=", ":", "=>", ":=", "->", "\u{2192}", "<<<"];

/// Whether a word is a quoted name, perhaps with a bracket before and a comma after it: `('password',`.
fn is_quoted_name(word: &str) -> bool {
    let inner = word.trim_start_matches(['(', '[', '{']).trim_end_matches([',', ')', ']', '}']);
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'));
    quote.is_some_and(|quote| inner.len() > 2 && inner.ends_with(quote) && inner.matches(quote).count() == 2)
}

/// `<password>***</password>`: the content of an element with a secret name.
fn element_masked(word: &str) -> Option<String> {
    let (before, rest) = word.split_once('<')?;
    let (name, rest) = rest.split_once('>')?;
    let end = rest.find("</")?;
    (names_secret(name) && end > 0).then(|| format!("{before}<{name}>{MASK}{}", &rest[end..]))
}

/// The parts of addresses that are secret by their place: `/t/TOKEN/` of a conda server, `/bot1:TOKEN/` of a bot, and a login in a
/// percent-encoded address.
fn places_masked(text: &str) -> String {
    let mut out = text.to_owned();
    for (before, after) in [("/t/", "/"), ("/token/", "/"), ("%3A%2F%2F", "%40"), ("%3a%2f%2f", "%40")] {
        let mut from = 0;
        while let Some(at) = out[from..].find(before).map(|at| from + at + before.len()) {
            from = at;
            let word = out[..at].rsplit(' ').next().unwrap_or_default();
            if after == "/" && !word.contains("://") {
                continue;
            }
            let rest = &out[at..];
            let end = rest.find(after).or((after == "/").then(|| rest.find(' ').unwrap_or(rest.len())));
            let Some(end) = end.filter(|end| (8..400).contains(end) && !rest[..*end].contains(' ')) else {
                continue;
            };
            out.replace_range(at..at + end, MASK);
            from = at + MASK.len();
        }
    }
    if let Some(at) = out.find("/bot")
        && let Some(colon) = out[at..].find(':').map(|colon| at + colon)
        && colon > at + 4
        && out[at + 4..colon].bytes().all(|byte| byte.is_ascii_digit())
    {
        let end = out[colon..].find(['/', ' ', '\'', '"']).map_or(out.len(), |end| colon + end);
        out.replace_range(colon + 1..end, MASK);
    }
    out
}

/// Whether a word of letters and digits changes between kinds as often as a random one: no name does. `_ZN...` are symbols.
fn is_random(piece: &str) -> bool {
    if piece.len() < 20 || !piece.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    let kind = |byte: &u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let bytes = piece.as_bytes();
    let changes = bytes.windows(2).filter(|pair| kind(&pair[0]) != kind(&pair[1])).count();
    let count = |is: fn(&u8) -> bool| bytes.iter().filter(|byte| is(byte)).count();
    count(u8::is_ascii_digit) >= 1
        && count(u8::is_ascii_uppercase) >= 2
        && count(u8::is_ascii_lowercase) >= 2
        && changes * 5 >= piece.len() * 2
}

/// The quote that a text begins with and does not end.
fn unclosed_quote(text: &str) -> Option<char> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    (text.matches(quote).count() == 1).then_some(quote)
}

/// Whether a word behind the name of a secret may be one, and not a word of a sentence (`token is invalid`): it has a digit
/// or mixed case.
fn is_like_a_secret(word: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
    let inside = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
    let mixed = word.chars().skip(1).any(|c| c.is_ascii_uppercase()) && inside(char::is_ascii_lowercase);
    word.len() >= 6 && (inside(char::is_ascii_digit) || mixed)
}

/// Whether a name may be that of a secret: `key: model.layers.0` and `pass: 12` are none.
fn may_name_secret(name: &str) -> bool {
    let name = name.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    ["key", "pass"].contains(&name.as_str()) || name == "pat" || name.ends_with("_pat")
}

/// Whether a value is one long word without the signs of a path or a module.
fn is_like_a_token(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    value.len() >= 12
        && is_like_a_secret(value)
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_+=".contains(c))
}

/// Whether a name is that of a secret.
fn names_secret(name: &str) -> bool {
    let name = name.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('-', "_");
    let ends = [
        "token",
        "passwort",
        "kennwort",
        "contrase\u{f1}a",
        "senha",
        "passe",
        "parola",
        "clave",
        "wachtwoord",
        "salasana",
        "haslo",
        "has\u{142}o",
        "l\u{f6}senord",
        "\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}",
        "\u{5bc6}\u{7801}",
        "\u{30d1}\u{30b9}\u{30ef}\u{30fc}\u{30c9}",
        "password",
        "passwd",
        "passphrase",
        "secret",
        "apikey",
        "accountkey",
        "_key",
        "_pass",
        "pwd",
        "sessionid",
        "credential",
        "credentials",
    ];
    let whole = ["auth", "pw", "passcode", "session_id"];
    let parts = ["password", "passwd", "passphrase", "secret", "apikey", "jwt", "creds"];
    whole.contains(&name.as_str())
        || ends.iter().any(|end| name.ends_with(end))
        || name.split('_').any(|part| parts.contains(&part))
}

/// The values of `"auth":"..."` and of other secret keys in JSON without spaces.
fn values_masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\":\"") {
        let (head, tail) = rest.split_at(at + 3);
        let name = head[..at].rsplit('"').next().unwrap_or_default();
        out.push_str(head);
        rest = tail;
        let value = tail.split('"').next().unwrap_or_default();
        if names_secret(name) || may_name_secret(name) && is_like_a_token(value) {
            out.push_str(MASK);
            rest = &tail[tail.find('"').unwrap_or(tail.len())..];
        }
    }
    out.push_str(rest);
    out
}

/// `user:password@host` without a scheme.
fn login_masked(word: &str) -> String {
    let Some((login, host)) = word.rsplit_once('@') else { return word.to_owned() };
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric()) && !host.starts_with("sha256:");
    match login.split_once(':') {
        // A path or a URL in front is none of this form.
        Some((user, password)) if is_host && !password.is_empty() && !login.contains('/') => {
            format!("{user}:{MASK}@{host}")
        }
        _ => word.to_owned(),
    }
}

/// Parameters whose value is a token or a password.
const LOGINS: [&str; 12] = [
    "authorization",
    "apikey",
    "api_key",
    "access_key",
    "secret",
    "client_secret",
    "password",
    "passwd",
    "credential",
    "sig",
    "jwt",
    "hdnts",
];
/// A shorter value is no secret.
const SHORTEST: usize = 8;

/// The name of a parameter of a URL whose value is a secret, in its query or fragment, such as the signature of a link that
/// expires. A key that names what is meant is none, nor the hash of the file.
///
/// ```
/// use envlock::model::secrets::secret_parameter as secret;
/// assert_eq!(secret("https://h/a.whl?v=1&X-Amz-Signature=0123456789abcdef").as_deref(), Some("X-Amz-Signature"));
/// assert_eq!(secret("https://h/a.whl?q-signature=0123456789").as_deref(), Some("q-signature"));
/// assert_eq!(secret("https://h/a.whl?signatur%65=0123456789").as_deref(), Some("signature"));
/// assert_eq!(secret("https://h/a.whl#egg=a&token=0123456789").as_deref(), Some("token"));
/// for name in ["auth", "pass", "authToken", "accessKey", "bearer", "credentials", "session", "key", "sas", "hmac"] {
///     assert_eq!(secret(&format!("https://h/a.whl?{name}=hunter2secret")).as_deref(), Some(name));
/// }
/// assert_eq!(secret("https://h/a.whl?a=http://user:word@x/").as_deref(), Some("a"));
/// for harmless in ["?key=builds/2025/nightly", "?cache_key=0123456789abcdef", "?auth=none-needed", "#sha256=0123456789abcdef"] {
///     assert_eq!(secret(&format!("https://h/a.whl{harmless}")), None);
/// }
/// ```
pub fn secret_parameter(url: &str) -> Option<String> {
    let parameters = &url[url.find(['?', '#'])? + 1..];
    let plain = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let has_login = |value: &str| value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    let is_secret = |name: &str, value: &str| {
        names_login(name) && value.len() >= SHORTEST
            || may_name_login(name) && looks_random(value)
            || has_known_token(value)
            || has_login(value)
    };
    let mut pairs = parameters.split(['&', ';', '#', '?']).filter_map(|part| part.split_once('='));
    pairs.find_map(|(name, value)| {
        let (name, value) = (plain(name), plain(value));
        is_secret(&name, &value).then_some(name)
    })
}

/// A requirement for a message: without the parameters of its address where one of them is a secret.
pub fn shown_requirement(text: &str) -> String {
    match secret_parameter(text).and_then(|_| text.find(['?', '#'])) {
        Some(end) => masked(&format!("{}?...", &text[..end])),
        None => masked(text),
    }
}

/// Whether the value of a parameter of this name is a token, a signature or a password.
fn names_login(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    LOGINS.contains(&name.as_str())
        || name.contains("signature")
        || name == "token"
        || name.ends_with("_token")
}

/// Whether a parameter of this name often has a login, and often something else.
fn may_name_login(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    PARAMETERS.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part))
}

/// Whether a value is one word of letters and digits, as a password or key is, and names of branches and folders are not.
fn looks_random(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    value.len() >= SHORTEST && !value.contains('/') && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// Whether a text has a token of known form.
fn has_known_token(text: &str) -> bool {
    text.split(|c| !is_token(c)).any(|word| start_of_token(word).is_some())
}

/// How a token of known form begins; `None` for other words.
fn start_of_token(word: &str) -> Option<&'static str> {
    let is_one = |(start, length): &&(&str, usize)| {
        word.strip_prefix(start).is_some_and(|secret| secret.len() >= *length && has_digit_or_upper(secret))
    };
    TOKENS.iter().find(is_one).map(|(start, _)| *start)
}

/// The values of secret parameters in a URL.
fn parameters_masked(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for (place, part) in word.split_inclusive(['?', '&', '#', ';']).enumerate() {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let is_secret = place > 0
            && (names_login(name)
                || PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
                || names_secret(name));
        let end =
            value.find(|c: char| !is_token(c) && !matches!(c, '%' | '/' | '+' | '=')).unwrap_or(value.len());
        if is_secret && end > 0 {
            out.push_str(&format!("{name}={MASK}{}", &value[end..]));
        } else {
            out.push_str(part);
        }
    }
    out
}

/// The tokens of known form in a word.
fn tokens_masked(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(end);
        let known = start_of_token(piece);
        // `eyJ...` is `{"` in base64: a JSON web token.
        let is_web_token = piece.starts_with("eyJ") && piece.len() > 30 && piece.contains('.');
        match known {
            Some(start) => out.extend([start, MASK]),
            None if is_web_token => out.extend(["eyJ", MASK]),
            None if piece.contains("_Z") => out.push_str(piece),
            None => {
                for run in piece.split_inclusive(['_', '-', '.']) {
                    let word = run.trim_end_matches(['_', '-', '.']);
                    match is_random(word) {
                        true => out.extend([MASK, &run[word.len()..]]),
                        false => out.push_str(run),
                    }
                }
            }
        }
        let next = tail.chars().next().map_or(0, char::len_utf8);
        out.push_str(&tail[..next]);
        rest = &tail[next..];
    }
    out
}

/// A word such as `sk-learn-something-long` is no token; one of many letters without a break is.
fn has_digit_or_upper(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        || text.len() >= 24 && text.bytes().all(|b| b.is_ascii_lowercase())
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn every_form_of_a_secret() {
        let long = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0";
        let secrets = [
            format!("using hf_{long}"),
            format!("token ghp_{long}"),
            format!("gho_{long}"),
            format!("github_pat_{long}"),
            format!("(glpat-{long})"),
            format!("Incorrect API key provided: sk-{long}."),
            format!("sk-ant-api03-{long}"),
            format!("xoxb-123-{long}"),
            "aws AKIAA1B2C3D4E5F6G7H8 end".to_owned(),
            format!("AIza{long}"),
            format!("npm_{long}"),
            format!("pypi-{long}{long}"),
            format!("nvapi-{long}"),
            format!("jwt eyJ{long}.{long}.{long}"),
            format!("Cookie: session={long}"),
            format!("Set-Cookie: a={long}; Path=/"),
            format!("Authorization: Bearer {long}"),
            format!("bearer {long}"),
            format!("GET https://host/x?v=1&token={long}&b=2"),
            format!("https://s3.example/x?X-Amz-Signature={long}"),
            format!("-----BEGIN RSA PRIVATE KEY----- {long}"),
            format!("proxy me:{long}@proxy.example:8080"),
            format!("https://me:{long}@host/simple"),
            format!("HF_TOKEN={long}"),
            format!("the password is {long}"),
            format!("mysql -u root -p{long}"),
            format!("{{\"auths\":{{\"nvcr.io\":{{\"auth\":\"{long}\"}}}}}}"),
            format!("Passwort: {long}"),
            format!("--api-key {long}"),
            format!("\"password\": \"{long}\""),
            format!("machine host login me password {long}"),
            format!("WANDB_API_KEY={long}"),
            format!("password = {long}"),
            format!("password => {long}"),
            format!("your token is {long}."),
            format!("the API token was `{long}`"),
            format!("using token {long} to log in"),
            format!("auth: {long}"),
            format!("aws_secret_access_key = {long}"),
            format!("password=\"my {long}\" next"),
            format!("REDIS_PASS={long}"),
            format!("curl -u me:{long} https://host"),
            format!("https://host/x#access_token={long}"),
            format!("https://host/x?client_secret={long}&amp;token={long}"),
            format!("DefaultEndpointsProtocol=https;AccountKey={long}=="),
            format!("r8_{long}"),
            format!("Cookie={long}"),
            format!("--password \"two {long}\""),
            format!("password: 'two {long}' next"),
            format!("DB_PASSWORD_PROD={long}"),
            format!("SECRET_KEY_BASE={long}"),
            format!("PASS={long}"),
            format!("KEY={long}"),
            format!("pw={long}"),
            format!("GITHUB_PAT={long}"),
            format!("jwt={long}"),
            format!("api key: {long}"),
            format!("Secret Key = {long}"),
            format!("ACCESS KEY {long}"),
            format!("//registry.example/:_authToken={long}"),
            format!("sk_test_{long}"),
            format!("SG.{long}.{long}"),
            format!("glsa_{long}"),
            format!("hvs.{long}"),
            format!("GOCSPX-{long}"),
            format!("AGE-SECRET-KEY-1{long}"),
        ];
        for text in &secrets {
            for text in
                [text.clone(), format!("error: no kernel image ({text})"), format!("[{text}]: failed")]
            {
                let shown = masked(&text);
                assert!(!shown.contains("C3"), "{text} -> {shown}");
            }
        }
    }

    /// Secrets that have no form of their own: what is around them tells, or that no name looks so.
    #[test]
    fn secrets_by_what_is_around_them() {
        let random = ["Zk3vQ9mXp2LrT7bYw8Nc", "aB3dE5fG7hJ9kL1mN3pQ5rS7", "q7eRTx1m3uNoP4S4b6dfg"];
        let plain = ["abcdefghijklmnopqrstuvwxyz", "0123456789abcdefghijklm"];
        let forms = [
            "header 'X: Basic {}'",
            "token -> {}",
            "https%3A%2F%2Fme%3A{}%40host%2F",
            "('password', '{}')",
            "docker login -u me -p {}",
            "https://conda.host/t/tk-{}/chan/linux-64",
            "{\"username\":\"me\",\"key\":\"{}\"}",
            "https://api.telegram.org/bot123456:{}/sendMessage",
            "mot_de_passe={}",
            "<password>{}</password>",
            "password <<< {}",
            "passwort: {}",
            "set \"api_token\" \"{}\"",
        ];
        for form in forms {
            for secret in
                random.iter().chain(plain.iter().filter(|_| !form.contains("Basic") && !form.contains("key")))
            {
                let text = form.replace("{}", secret);
                assert!(!masked(&text).contains(secret), "{}", masked(&text));
            }
        }
        for form in ["{}", "it was {}, he said", "/srv/x-{}-y", "[{}]", "a={}", "x:{};"] {
            for secret in random {
                let text = form.replace("{}", secret);
                assert!(!masked(&text).contains(secret), "{}", masked(&text));
            }
        }
        let letters = "hf_abcdefghijklmnopqrstuvwxyzabcdefgh";
        assert!(!masked(letters).contains("abcdefgh"));
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "RuntimeError: CUDA error: no kernel image is available",
            "nvcr.io/nvidia/pytorch:24.01-py3@sha256:0123456789abcdef",
            "pip install git+https://github.com/a/b@v1.0",
            "import sk-learn-contrib-lightning",
            "file.py:12: KeyError: 'key'",
            "tokenizer: 4 tokens",
            "the token is invalid or expired",
            "the key of the dictionary is missing: KeyError",
            "compat patch passed: 12 paths",
            "pass: 12 fail: 0",
            "Unexpected key: model.layers.0.weight, key:conv1",
            "unexpected keyword argument 'use_auth_token' transformers==4.2",
            "Setting pad_token to eos_token 50256 for open-end generation",
            "/usr/lib/libcudnn.so.9: undefined symbol: cudnnGetVersion, version libcudnn.so.9",
            "undefined symbol: _ZN3c1021throwNullDataPtrErrorEv, cublasGemmStridedBatchedEx3 failed",
            "/home/me/t/x.py /opt/t/lib/python3.12 NVIDIA GeForce RTX 4090 GPU-2f1c9a04-77d1-7b2a-9d1e-0c1f2a3b4c5d",
            "git+https://github.com/a/b@0123456789abcdef0123456789abcdef01234567",
            "File \"/t/lib.py\", line 1, in <module> cudnnConvolutionBackwardFilter2D(x)",
            "torch-2.9.1+cu128-cp312-cp312-manylinux_2_28_x86_64.whl",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
