//! Words that agree with a number: `1 error is`, `3 errors are`.

/// A number of things that a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub usize);

impl Count {
    /// One of two words: `("was", "were")`.
    pub fn word(self, one: &'static str, several: &'static str) -> &'static str {
        if self.0 == 1 { one } else { several }
    }

    /// `is` or `are`.
    pub fn is(self) -> &'static str {
        self.word("is", "are")
    }

    /// `has` or `have`.
    pub fn has(self) -> &'static str {
        self.word("has", "have")
    }

    /// The end of a noun: nothing or `s`.
    pub fn s(self) -> &'static str {
        self.word("", "s")
    }

    /// A regular verb: `needs` or `need`.
    pub fn verb(self, plain: &str) -> String {
        format!("{plain}{}", self.word("s", ""))
    }

    /// The number with a regular noun: `1 error`, `3 errors`.
    pub fn of(self, noun: &str) -> String {
        format!("{} {noun}{}", self.0, self.s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_agree() {
        let words = |n| {
            format!("{} {} {} {}", Count(n).of("GPU"), Count(n).is(), Count(n).has(), Count(n).verb("need"))
        };
        assert_eq!(words(0), "0 GPUs are have need");
        assert_eq!(words(1), "1 GPU is has needs");
        assert_eq!(words(2), "2 GPUs are have need");
    }
}
