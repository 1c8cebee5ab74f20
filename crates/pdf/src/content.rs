//! The text of the content of pages.

use std::rc::Rc;

use hayro_syntax::content::{Instruction, UntypedIter};
use hayro_syntax::object::{Array, Dict, Name, Object, Stream};
use hayro_syntax::page::{Page, Resources};

use crate::font::Font;
use crate::layout::PageLayout;
use crate::matrix::Matrix;
use crate::{PdfError, PdfLimits};

/// The depth of forms in forms.
const MAX_FORMS: usize = 12;
/// The maximum number of saved states.
const MAX_STATES: usize = 256;
/// The longest gap in an array of texts, in thousandths of an em.
const MAX_WORDS: f64 = 1e6;

/// Reads the text of pages within the limits of all.
#[derive(Debug)]
pub(crate) struct PageReader<'l> {
    limits: &'l PdfLimits,
    operations: usize,
    bytes: usize,
    /// The number of characters whose fonts do not name them.
    pub(crate) unreadable: usize,
    /// The fonts that were read, by their dictionaries.
    fonts: Vec<(Vec<u8>, Rc<Font>)>,
}

/// The state that `q` saves and `Q` restores.
#[derive(Clone)]
struct State {
    position: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    character_space: f64,
    word_space: f64,
    scale: f64,
    leading: f64,
    rise: f64,
}

/// The content that is being read.
struct Content {
    state: State,
    saved: Vec<State>,
    text: Matrix,
    line: Matrix,
}

impl<'l> PageReader<'l> {
    pub(crate) fn new(limits: &'l PdfLimits) -> Self {
        Self {
            limits,
            operations: 0,
            bytes: 0,
            unreadable: 0,
            fonts: Vec::new(),
        }
    }

    /// Returns the text of a page.
    pub(crate) fn read(&mut self, page: &Page<'_>) -> Result<String, PdfError> {
        let mut layout = PageLayout::default();
        self.content(
            page.operations(),
            page.resources(),
            Matrix::IDENTITY,
            0,
            &mut layout,
        )?;
        let text = layout.into_text();
        self.bytes += text.len();
        Ok(text)
    }

    fn content(
        &mut self,
        mut operations: UntypedIter<'_>,
        resources: &Resources<'_>,
        position: Matrix,
        depth: usize,
        layout: &mut PageLayout,
    ) -> Result<(), PdfError> {
        let mut content = Content::new(position);
        while let Some(operation) = operations.next() {
            self.operations += 1;
            if self.operations > self.limits.operations {
                let limit = self.limits.operations;
                return Err(PdfError::TooComplex { limit });
            }
            if self.bytes + layout.bytes() > self.limits.text_bytes {
                let limit = self.limits.text_bytes;
                return Err(PdfError::TooMuchText { limit });
            }
            let operator: &[u8] = operation.operator;
            match operator {
                b"Tf" => {
                    let mut operands = operation.operands();
                    let (name, size) = (operands.next(), operands.next());
                    if let Some(Object::Name(name)) = name {
                        content.state.font = resources.get_font(name).map(|dict| self.font(&dict));
                    }
                    if let Some(Object::Number(size)) = size {
                        content.state.size = size.as_f64();
                    }
                }
                b"Tj" | b"'" | b"\"" => {
                    content.before_text(operator, &operation);
                    if let Some(Object::String(text)) = operation.operands().last() {
                        self.unreadable += content.show(text.as_bytes(), layout);
                    }
                }
                b"TJ" => {
                    if let Some(Object::Array(items)) = operation.operands().next() {
                        self.unreadable += content.show_all(items, layout);
                    }
                }
                b"Do" if depth < MAX_FORMS => {
                    if let Some(Object::Name(name)) = operation.operands().next() {
                        self.form(name, resources, content.state.position, depth, layout)?;
                    }
                }
                _ => content.apply(operator, &operation),
            }
        }
        Ok(())
    }

    /// Reads the text of a form; an image has none.
    fn form(
        &mut self,
        name: &Name<'_>,
        resources: &Resources<'_>,
        position: Matrix,
        depth: usize,
        layout: &mut PageLayout,
    ) -> Result<(), PdfError> {
        let Some(form) = resources.get_x_object(name) else {
            return Ok(());
        };
        let dict = form.dict();
        let kind = dict.get::<Name<'_>>("Subtype");
        if kind.is_none_or(|kind| kind.as_ref() != b"Form") {
            return Ok(());
        }
        let Ok(bytes) = Stream::decoded_data(&form) else {
            return Ok(());
        };
        let matrix = dict.get::<Array<'_>>("Matrix");
        let matrix = matrix.and_then(|matrix| Matrix::from_array(&matrix));
        let position = matrix.unwrap_or(Matrix::IDENTITY).then(position);
        let own = dict.get::<Dict<'_>>("Resources").map(Resources::new);
        let resources = own.as_ref().unwrap_or(resources);
        self.content(
            UntypedIter::new(&bytes),
            resources,
            position,
            depth + 1,
            layout,
        )
    }

    fn font(&mut self, dict: &Dict<'_>) -> Rc<Font> {
        let known = self.fonts.iter().find(|(known, _)| known == dict.data());
        if let Some((_, font)) = known {
            return Rc::clone(font);
        }
        let font = Rc::new(Font::new(dict));
        self.fonts.push((dict.data().to_vec(), Rc::clone(&font)));
        font
    }
}

impl Content {
    fn new(position: Matrix) -> Self {
        Self {
            state: State {
                position,
                font: None,
                size: 1.0,
                character_space: 0.0,
                word_space: 0.0,
                scale: 1.0,
                leading: 0.0,
                rise: 0.0,
            },
            saved: Vec::new(),
            text: Matrix::IDENTITY,
            line: Matrix::IDENTITY,
        }
    }

    /// Applies an operator that shows nothing.
    fn apply(&mut self, operator: &[u8], operation: &Instruction<'_, '_>) {
        let number = |place| operand(operation, place).unwrap_or_default();
        match operator {
            b"q" if self.saved.len() < MAX_STATES => self.saved.push(self.state.clone()),
            b"Q" => {
                if let Some(state) = self.saved.pop() {
                    self.state = state;
                }
            }
            b"cm" => self.state.position = six(operation).then(self.state.position),
            b"BT" => (self.text, self.line) = (Matrix::IDENTITY, Matrix::IDENTITY),
            b"Tc" => self.state.character_space = number(0),
            b"Tw" => self.state.word_space = number(0),
            b"Tz" => self.state.scale = number(0) / 100.0,
            b"TL" => self.state.leading = number(0),
            b"Ts" => self.state.rise = number(0),
            b"Td" => self.move_line(number(0), number(1)),
            b"TD" => {
                self.state.leading = -number(1);
                self.move_line(number(0), number(1));
            }
            b"T*" => self.move_line(0.0, -self.state.leading),
            b"Tm" => (self.text, self.line) = (six(operation), six(operation)),
            _ => {}
        }
    }

    fn move_line(&mut self, x: f64, y: f64) {
        self.line = Matrix::moved(x, y).then(self.line);
        self.text = self.line;
    }

    /// Moves to the next line for the operators that do so before a text.
    fn before_text(&mut self, operator: &[u8], operation: &Instruction<'_, '_>) {
        if operator == b"Tj" {
            return;
        }
        if operator == b"\"" {
            self.state.word_space = operand(operation, 0).unwrap_or_default();
            self.state.character_space = operand(operation, 1).unwrap_or_default();
        }
        self.move_line(0.0, -self.state.leading);
    }

    /// Shows texts with the gaps between them; returns the number of unreadable characters.
    fn show_all(&mut self, items: &Array<'_>, layout: &mut PageLayout) -> usize {
        let mut unreadable = 0;
        for item in items.iter::<Object<'_>>() {
            match item {
                Object::String(text) => unreadable += self.show(text.as_bytes(), layout),
                Object::Number(gap) => {
                    let gap = gap.as_f64().clamp(-MAX_WORDS, MAX_WORDS);
                    let gap = -gap / 1000.0 * self.state.size * self.state.scale;
                    self.text = Matrix::moved(gap, 0.0).then(self.text);
                }
                _ => {}
            }
        }
        unreadable
    }

    /// Shows a text; returns the number of unreadable characters.
    fn show(&mut self, bytes: &[u8], layout: &mut PageLayout) -> usize {
        let Some(font) = self.state.font.clone() else {
            return bytes.len();
        };
        let state = &self.state;
        let (size, scale) = (state.size, state.scale);
        let glyph_space = Matrix::new([size * scale, 0.0, 0.0, size, 0.0, state.rise]);
        let mut unreadable = 0;
        let mut text = self.text;
        font.glyphs(bytes, |glyph| {
            let start = text;
            let mut advance = glyph.width * size + state.character_space;
            if glyph.is_space {
                advance += state.word_space;
            }
            text = Matrix::moved(advance * scale, 0.0).then(text);
            match &glyph.text {
                Some(characters) => {
                    let start = glyph_space.then(start).then(state.position);
                    let stop = glyph_space.then(text).then(state.position);
                    layout.show(characters, start, stop);
                }
                None => unreadable += 1,
            }
        });
        self.text = text;
        unreadable
    }
}

fn operand(operation: &Instruction<'_, '_>, place: usize) -> Option<f64> {
    match operation.operands().nth(place) {
        Some(Object::Number(number)) => Some(number.as_f64()),
        _ => None,
    }
}

fn six(operation: &Instruction<'_, '_>) -> Matrix {
    let number = |place| operand(operation, place).unwrap_or_default();
    Matrix::new([
        number(0),
        number(1),
        number(2),
        number(3),
        number(4),
        number(5),
    ])
}
