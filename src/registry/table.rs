//! The tables of the registry: rows of one kind, each with what it rests on.

use std::cmp::Ordering;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::model::cited::Cited;

/// The order of a table's rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ascending, each key once. Rows are sorted when they are loaded, too.
    Sorted,
    /// Any, each key once.
    Unique,
    /// Any: the first row that matches counts.
    First,
}

/// What is wrong with a row that can be parsed.
#[derive(Debug)]
pub(super) struct Fault {
    /// The key at whose line it is told.
    pub key: &'static str,
    pub text: String,
}

impl Fault {
    pub fn at(key: &'static str, text: impl Into<String>) -> Fault {
        Fault { key, text: text.into() }
    }
}

/// A kind of rows.
pub(super) trait Row: DeserializeOwned + fmt::Debug + Sized {
    /// The file `STEM.toml`, or every file of the folder `STEM/`.
    const STEM: &'static str;
    /// The name of the table in the file.
    const TABLE: &'static str;
    /// The order of the rows.
    const ORDER: Order;

    /// Compares rows by their keys.
    fn compare(&self, other: &Self) -> Ordering;

    /// What is wrong with a row that can be parsed.
    fn problems(&self) -> Vec<Fault>;

    /// Puts the rows of all files in the order of the table.
    fn arrange(rows: &mut [Cited<Self>]);
}

/// Whether a file holds rows of a kind.
pub(super) fn is_in(path: &str, stem: &str) -> bool {
    path.strip_prefix(stem).is_some_and(|rest| rest == ".toml" || rest.starts_with('/'))
}

/// A row with its place.
pub(super) struct Placed<R> {
    pub row: Cited<R>,
    /// The file, inside the registry.
    pub path: String,
    /// From 1.
    pub line: usize,
}

impl<R: Row> Placed<R> {
    /// The rows in the order of their table.
    pub fn rows(placed: Vec<Placed<R>>) -> Vec<Cited<R>> {
        let mut rows: Vec<Cited<R>> = placed.into_iter().map(|placed| placed.row).collect();
        R::arrange(&mut rows);
        rows
    }
}

/// What has the rows of every table with their places.
pub(super) trait PlacedRows {
    /// The rows of a table.
    fn table<R: Row>(&mut self) -> Vec<Placed<R>>;
}

/// What has the rows of every table.
pub(super) trait Rows {
    /// The rows of a table, in any order.
    fn rows<R: Row>(&mut self) -> Result<Vec<Cited<R>>, String>;
}

/// Lists the tables of the registry. Each has rows of its own type, stands in a file or in all files of a folder, and is
/// read on first use; `then` is what puts them in order in the place of the key.
macro_rules! tables {
    ($($field:ident: $row:ty = $stem:literal / $table:literal,
        $order:ident by |$r:ident| $key:expr
        $(, checked by $check:path)? $(, then $then:path)?;)+) => {
        /// The rows of each table, read on first use.
        #[derive(Debug, Default)]
        pub(super) struct Tables {
            $(pub $field: std::sync::OnceLock<Vec<Cited<$row>>>,)+
        }

        /// The files that tables are in.
        pub(super) const STEMS: &[&str] = &[$($stem,)+];

        impl Tables {
            /// Reads every table.
            pub fn read(from: &mut impl Rows) -> Result<Tables, String> {
                $(let mut $field = from.rows::<$row>()?;
                <$row as Row>::arrange(&mut $field);)+
                Ok(Tables { $($field: $field.into(),)+ })
            }
        }

        /// The rows of each table with their places.
        pub(super) struct PlacedTables {
            $(pub $field: Vec<Placed<$row>>,)+
        }

        impl PlacedTables {
            /// Reads every table.
            pub fn read(from: &mut impl PlacedRows) -> PlacedTables {
                PlacedTables { $($field: from.table(),)+ }
            }

            /// The rows without their places.
            pub fn into_tables(self) -> Tables {
                Tables { $($field: Placed::rows(self.$field).into(),)+ }
            }
        }

        $(impl Row for $row {
            const STEM: &'static str = $stem;
            const TABLE: &'static str = $table;
            const ORDER: Order = Order::$order;

            fn compare(&self, other: &Self) -> std::cmp::Ordering {
                let key = |$r: &Self| $key;
                key(self).cmp(&key(other))
            }

            fn problems(&self) -> Vec<Fault> {
                #[allow(unused_mut, reason = "not every table has checks of its own")]
                let mut problems = Vec::new();
                $(problems.extend($check(self));)?
                problems
            }

            fn arrange(rows: &mut [Cited<Self>]) {
                $(return $then(rows);)?
                // In most tables they are in order: in a file they have to be.
                #[allow(unreachable_code, reason = "where the table is put in order by its own function")]
                if Self::ORDER == Order::Sorted && !rows.is_sorted_by(|one, other| one.compare(other).is_le()) {
                    rows.sort_by(|one, other| one.compare(other));
                }
            }
        })+
    };
}
pub(super) use tables;
