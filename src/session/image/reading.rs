//! Reads an image, with its progress.

use std::cell::Cell;

use indicatif::ProgressBar;

use super::ImageOptions;
use crate::image::{self, Choice, Image, ImageError};
use crate::model::text::clean;
use crate::session::Interface;
use crate::session::failure::Failure;

/// Reads the image, with a progress bar.
pub(super) fn read(options: &ImageOptions, interface: &dyn Interface) -> Result<Image, Failure> {
    let text = options.path.to_string_lossy();
    if !options.path.exists() {
        let shown = clean(&text, 200);
        let word = crate::model::text::shell_word(&shown);
        return Err(Failure::input(format!("`{shown}` does not exist")).hint(format!(
            "an image in a registry or a daemon is saved to a file first: `docker save {word} -o image.tar`, `skopeo copy docker://{word} oci-archive:image.tar`"
        )));
    }
    let choice = Choice { tag: options.tag.clone(), platform: options.platform };
    let bar = Bar { bar: interface.progress("layer"), done: Cell::new(0) };
    let image = image::read(&options.path, &choice, &bar);
    bar.bar.finish_and_clear();
    image.map_err(|error| {
        let hint = match &error {
            ImageError::Several(..) => Some("`--tag NAME` or `--platform linux-aarch64` chooses one"),
            ImageError::NotAnImage(..) => {
                Some("`docker save NAME -o image.tar` and `skopeo copy docker://NAME oci:FOLDER` write one")
            }
            _ => None,
        };
        let error = Failure::input(clean(&error.to_string(), 1_000));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

/// The progress of an image, in MiB of its layer.
struct Bar {
    bar: ProgressBar,
    done: Cell<u64>,
}

impl image::Progress for Bar {
    fn layer(&self, number: usize, of: usize, size: u64) {
        self.bar.set_message(format!("layer {number} of {of}, MiB"));
        self.bar.set_length(size >> 20);
        self.done.set(0);
    }

    fn read(&self, bytes: u64) {
        // The bar is slower than the layer.
        if bytes >> 20 != self.done.get() {
            self.done.set(bytes >> 20);
            self.bar.set_position(bytes >> 20);
        }
    }
}
