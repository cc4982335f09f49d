//! Parses the headers of `.nv_fatbin`, the section with a library's GPU code. Nothing is decompressed: the
//! headers contain the target of each entry.
//!
//! The layout, little endian: a sequence of fatbin containers. A container is a header of 16 bytes (magic
//! `0xBA55ED50`, version, header size, body size) and entries. An entry is a header (kind, header size,
//! payload size, PTX ISA version, target as a decimal number, flags) and its payload.

use std::collections::{BTreeMap, HashMap};

use crate::model::capability::{CodeTarget, ComputeCapability, TargetScope};
use crate::model::library::{CodeFault, DeviceCode, Shape};

pub(super) const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
/// Size of a container's header, in bytes.
pub(super) const CONTAINER_HEADER: usize = 16;
/// Size in bytes of the part of an entry's header that every release has.
pub(super) const ENTRY_HEADER: usize = 64;
/// Flag of an architecture-specific target: `sm_90a`.
const ARCHITECTURE_SPECIFIC: u64 = 0x0010_0000;
/// Flag of a family-specific target: `sm_100f`.
const FAMILY_SPECIFIC: u64 = 0x0020_0000;
/// Maximum number of entries; the largest library seen had 5,712.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum number of distinct sets of targets.
const MAX_SHAPES: usize = 10_000;
/// Maximum number of zero bytes between containers; compilers pad by less than 8 bytes.
const MAX_PADDING: usize = 4_096;
/// Maximum gap in bytes between containers; compilers pad by less than 8 bytes.
const MAX_GAP: usize = 1 << 20;

/// Parses the section. A defect is stored in `fault`, with the data read before it.
pub fn read(section: &[u8]) -> DeviceCode {
    let mut reader = Reader { section, ..Reader::default() };
    if let Err(fault) = reader.containers() {
        reader.code.fault = Some(fault);
    }
    let mut code = reader.code;
    code.shapes = reader.shapes.into_iter().collect();
    code.shapes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    code.ptx_isa = reader.ptx_isa.into_iter().collect();
    code
}

#[derive(Default)]
struct Reader<'d> {
    section: &'d [u8],
    code: DeviceCode,
    shapes: HashMap<Shape, usize>,
    ptx_isa: BTreeMap<CodeTarget, (u16, u16)>,
}

impl Reader<'_> {
    fn containers(&mut self) -> Result<(), CodeFault> {
        let mut position = 0;
        while let Some(start) = self.next_container(position)? {
            let header =
                field::<u16>(self.section, start + 6).ok_or(CodeFault::Layout("a container is cut off"))?;
            let body =
                field::<u64>(self.section, start + 8).ok_or(CodeFault::Layout("a container is cut off"))?;
            let header = usize::from(header);
            if header < CONTAINER_HEADER {
                return Err(CodeFault::Layout("a container's header is too short"));
            }
            let end = usize::try_from(body)
                .ok()
                .and_then(|body| start.checked_add(header)?.checked_add(body))
                .filter(|end| *end <= self.section.len())
                .ok_or(CodeFault::Layout("a container is longer than the section"))?;
            self.entries(start + header, end)?;
            position = end;
        }
        Ok(())
    }

    /// The start of the next container: after the padding, else within [`MAX_GAP`]; `None` at the end.
    fn next_container(&self, position: usize) -> Result<Option<usize>, CodeFault> {
        let mut at = position.next_multiple_of(8);
        while field::<u64>(self.section, at) == Some(0) {
            at += 8;
        }
        if self.section.len().saturating_sub(at) < CONTAINER_HEADER {
            return Ok(None);
        }
        if at - position > MAX_PADDING {
            return Err(CodeFault::Zeros);
        }
        let last = self.section.len() - CONTAINER_HEADER;
        for candidate in (at..=last.min(at + MAX_GAP)).step_by(8) {
            if self.section[candidate..].starts_with(&MAGIC) {
                return Ok(Some(candidate));
            }
        }
        Err(CodeFault::Layout("no container where one is expected"))
    }

    fn entries(&mut self, mut at: usize, end: usize) -> Result<(), CodeFault> {
        let mut shape = Shape::default();
        while at + ENTRY_HEADER <= end {
            self.code.entries += 1;
            if self.code.entries > MAX_ENTRIES {
                return Err(CodeFault::Layout("too many entries"));
            }
            let entry = &self.section[at..at + ENTRY_HEADER];
            let number = |offset| field::<u32>(entry, offset).unwrap_or_default();
            let header = number(4) as usize;
            let payload = field::<u64>(entry, 8).unwrap_or_default();
            if entry.iter().all(|byte| *byte == 0) {
                return Err(CodeFault::Zeros);
            }
            if header < ENTRY_HEADER {
                return Err(CodeFault::Layout("an entry's header is too short"));
            }
            let next = usize::try_from(payload)
                .ok()
                .and_then(|payload| at.checked_add(header)?.checked_add(payload))
                .filter(|next| *next <= end)
                .ok_or(CodeFault::Layout("an entry is longer than its container"))?;
            let flags = field::<u64>(entry, 40).unwrap_or_default();
            if let Some(target) = target(number(28), flags) {
                match field::<u16>(entry, 0) {
                    Some(1) => {
                        let minor = field::<u16>(entry, 24).unwrap_or_default();
                        let major = field::<u16>(entry, 26).unwrap_or_default();
                        let isa = self.ptx_isa.entry(target).or_default();
                        *isa = (*isa).max((major, minor));
                        insert(&mut shape.ptx, target);
                    }
                    Some(2) => insert(&mut shape.sass, target),
                    // Other kinds are not loadable code.
                    _ => {}
                }
            }
            at = next;
        }
        self.code.containers += 1;
        if self.shapes.len() < MAX_SHAPES || self.shapes.contains_key(&shape) {
            *self.shapes.entry(shape).or_default() += 1;
            Ok(())
        } else {
            Err(CodeFault::Layout("too many different sets of targets"))
        }
    }
}

fn insert(list: &mut Vec<CodeTarget>, target: CodeTarget) {
    if let Err(at) = list.binary_search(&target) {
        list.insert(at, target);
    }
}

/// The target from its decimal number: the last digit is the minor version.
fn target(number: u32, flags: u64) -> Option<CodeTarget> {
    let scope = if flags & ARCHITECTURE_SPECIFIC != 0 {
        TargetScope::Exact
    } else if flags & FAMILY_SPECIFIC != 0 {
        TargetScope::Family
    } else {
        TargetScope::Generation
    };
    let major = u8::try_from(number / 10).ok().filter(|major| (1..100).contains(major))?;
    Some(CodeTarget { capability: ComputeCapability::new(major, (number % 10) as u8), scope })
}

/// A little-endian number.
pub(super) trait Number: Sized {
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($kind:ty)*) => {$(
        impl Number for $kind {
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| <$kind>::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u16 u32 u64);

pub(super) fn field<N: Number>(bytes: &[u8], at: usize) -> Option<N> {
    N::read(bytes.get(at..)?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An entry as a compiler writes it, with 8 bytes of payload.
    pub(in super::super) fn entry(kind: u16, arch: u32, flags: u64, isa: (u16, u16)) -> Vec<u8> {
        let mut out = vec![0; 64];
        out[0..2].copy_from_slice(&kind.to_le_bytes());
        out[2..4].copy_from_slice(&0x0101u16.to_le_bytes());
        out[4..8].copy_from_slice(&64u32.to_le_bytes());
        out[8..16].copy_from_slice(&8u64.to_le_bytes());
        out[24..26].copy_from_slice(&isa.1.to_le_bytes());
        out[26..28].copy_from_slice(&isa.0.to_le_bytes());
        out[28..32].copy_from_slice(&arch.to_le_bytes());
        out[40..48].copy_from_slice(&flags.to_le_bytes());
        out.extend([0xaa; 8]);
        out
    }

    pub(in super::super) fn container(entries: &[Vec<u8>]) -> Vec<u8> {
        let body: Vec<u8> = entries.concat();
        let mut out = MAGIC.to_vec();
        out.extend(1u16.to_le_bytes());
        out.extend(16u16.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
        out
    }

    fn listed(targets: &[CodeTarget]) -> Vec<String> {
        targets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn targets_of_every_kind() {
        let mut section = container(&[
            entry(2, 80, 0x11, (1, 7)),
            entry(2, 90, 0x0010_0011, (1, 7)),
            entry(2, 103, 0x0120_0011, (1, 8)),
            entry(1, 120, 0x8011, (8, 7)),
        ]);
        section.extend([0; 16]);
        section.extend(container(&[entry(2, 80, 0x11, (1, 7)), entry(0x40, 70, 0x11, (1, 7))]));
        let code = read(&section);
        assert_eq!((code.containers, code.entries, &code.fault), (2, 6, &None));
        assert_eq!(listed(&code.shapes[0].0.sass), ["8.0"]);
        assert_eq!(listed(&code.shapes[1].0.sass), ["8.0", "9.0a", "10.3f"]);
        assert_eq!(code.ptx_isa, [("12.0".parse().unwrap(), (8, 7))]);
    }

    #[test]
    fn defects_are_reported_and_the_rest_is_read() {
        let good = container(&[entry(2, 80, 0x11, (1, 7))]);
        let mut long = good.clone();
        long[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut short = good.clone();
        short[6] = 3;
        let mut entry_long = good.clone();
        entry_long[24..32].copy_from_slice(&(u64::MAX - 70).to_le_bytes());
        let mut entry_short = good.clone();
        entry_short[20..24].copy_from_slice(&0u32.to_le_bytes());
        let garbage = vec![0x5a; 64];
        for bad in [long, short, entry_long, entry_short, garbage] {
            let section = [good.clone(), bad].concat();
            let code = read(&section);
            assert!(code.fault.is_some());
            assert_eq!(code.containers, 1);
        }
        assert_eq!(read(&[]), DeviceCode::default());
        assert_eq!(read(&[0; 4096]), DeviceCode::default());
        let mut zeroed = [good.clone(), good.clone()].concat();
        zeroed[good.len() + 16..].fill(0);
        assert_eq!(read(&zeroed).fault, Some(CodeFault::Zeros));
        let gap = [good.clone(), vec![0; 8_192], good.clone()].concat();
        assert_eq!(read(&gap).fault, Some(CodeFault::Zeros));
        // Truncated input must not panic.
        for length in 0..good.len() {
            read(&good[..length]);
        }
    }
}
