//! The values of an evaluation. What is not known stays [`Value::Unknown`], and so does what is made of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A list or dictionary, which several names may share. `None` once something unknown may have changed it.
pub(super) type Shared<T> = Rc<RefCell<Option<T>>>;

/// The value of an expression.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// It depends on what is not in the tree, or on what is not evaluated.
    Unknown,
    None,
    Bool(bool),
    Text(String),
    List(Shared<Vec<Value>>),
    /// A tuple of texts, which nothing changes: the groups of a match.
    Row(Rc<[String]>),
    Dict(Shared<Vec<(String, Value)>>),
    /// A path below the tree's folder, which is ``.
    Path(String),
    /// An open file of the tree, by its path, and whether it was read, which is possible once.
    File(String, Rc<Cell<bool>>),
    /// A function of the file, by the id of its node.
    Function(usize),
    /// What an import binds, by its dotted name: `os.path.join`.
    Imported(String),
}

impl Value {
    pub fn list(values: Vec<Value>) -> Value {
        Value::List(Rc::new(RefCell::new(Some(values))))
    }

    pub fn dict(pairs: Vec<(String, Value)>) -> Value {
        Value::Dict(Rc::new(RefCell::new(Some(pairs))))
    }

    pub fn texts(lines: impl IntoIterator<Item = String>) -> Value {
        Value::list(lines.into_iter().map(Value::Text).collect())
    }

    /// The text of a text or path.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Path(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a text: where a path is used as text, its folder counts, which has no name here.
    pub fn plain_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its size, for the account of work.
    pub fn size(&self) -> usize {
        match self {
            Value::Text(text) | Value::Path(text) => text.len(),
            Value::Row(texts) => texts.iter().map(|text| 16 + text.len()).sum(),
            Value::List(items) => items.borrow().iter().flatten().map(|item| 16 + item.size()).sum(),
            Value::Dict(entries) => {
                entries.borrow().iter().flatten().map(|(key, value)| 64 + key.len() + value.size()).sum()
            }
            _ => 0,
        }
    }

    /// The items of a list.
    pub fn items(&self) -> Option<Vec<Value>> {
        match self {
            Value::List(items) => items.borrow().clone(),
            _ => None,
        }
    }

    /// The entries of a dictionary.
    pub fn entries(&self) -> Option<Vec<(String, Value)>> {
        match self {
            Value::Dict(entries) => entries.borrow().clone(),
            _ => None,
        }
    }

    /// Whether it counts as true; `None` if that is not known.
    pub fn is_true(&self) -> Option<bool> {
        match self {
            Value::None => Some(false),
            Value::Bool(is) => Some(*is),
            Value::Text(text) => Some(!text.is_empty()),
            Value::List(items) => items.borrow().as_ref().map(|items| !items.is_empty()),
            Value::Dict(entries) => entries.borrow().as_ref().map(|entries| !entries.is_empty()),
            Value::Row(texts) => Some(!texts.is_empty()),
            Value::Path(_) | Value::File(..) | Value::Function(_) => Some(true),
            Value::Unknown | Value::Imported(_) => None,
        }
    }

    /// Something unknown may change it: a list or dictionary is no longer known, for all names that share it.
    pub fn forget(&self) {
        match self {
            Value::List(items) => {
                let items = items.borrow_mut().take();
                items.iter().flatten().for_each(Value::forget);
            }
            Value::Dict(entries) => {
                let entries = entries.borrow_mut().take();
                entries.iter().flatten().for_each(|(_, value)| value.forget());
            }
            _ => {}
        }
    }

    /// Whether two values are equal; `None` if that is not known.
    pub fn equals(&self, other: &Value) -> Option<bool> {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Some(a == b),
            (Value::Bool(a), Value::Bool(b)) => Some(a == b),
            (Value::None, Value::None) => Some(true),
            (Value::None, Value::Text(_) | Value::List(_) | Value::Dict(_))
            | (Value::Text(_) | Value::List(_) | Value::Dict(_), Value::None) => Some(false),
            _ => None,
        }
    }
}

/// A list of new items. A list in a list could be changed through the outer one, so it is forgotten.
pub(super) fn list_of(items: Vec<Value>) -> Value {
    Value::list(items.into_iter().map(flat).collect())
}

/// A dictionary. Lists in it are shared, and dictionaries of lists; deeper ones are forgotten.
pub(super) fn dict_of(entries: Vec<(String, Value)>) -> Value {
    let is_deep = |value: &Value| match value {
        Value::Dict(_) => {
            let inner = value.entries().unwrap_or_default();
            inner.iter().any(|(_, value)| matches!(value, Value::Dict(_)))
        }
        _ => false,
    };
    let kept = |value: Value| if is_deep(&value) { flat(value) } else { value };
    Value::dict(entries.into_iter().map(|(key, value)| (key, kept(value))).collect())
}

/// A value that is put into an existing dictionary: a dictionary could contain that one, so it is forgotten.
pub(super) fn into_dict(value: Value) -> Value {
    match value {
        Value::Dict(_) => flat(value),
        value => value,
    }
}

/// A value in a place where no list may be.
pub(super) fn flat(value: Value) -> Value {
    match value {
        Value::List(_) | Value::Dict(_) => {
            value.forget();
            Value::Unknown
        }
        value => value,
    }
}

/// Sets a key of a dictionary, which keeps its place.
pub(super) fn put(entries: &mut Vec<(String, Value)>, key: String, value: Value) {
    match entries.iter_mut().find(|(known, _)| *known == key) {
        Some(entry) => entry.1 = value,
        None => entries.push((key, value)),
    }
}
