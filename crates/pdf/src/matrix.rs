//! Transformations of the plane.

use hayro_syntax::object::{Array, Number};

/// A transformation: `x' = a·x + c·y + e`, `y' = b·x + d·y + f`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) a: f64,
    pub(crate) b: f64,
    pub(crate) c: f64,
    pub(crate) d: f64,
    pub(crate) e: f64,
    pub(crate) f: f64,
}

impl Matrix {
    pub(crate) const IDENTITY: Self = Self::new([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    pub(crate) const fn new(numbers: [f64; 6]) -> Self {
        Self {
            a: numbers[0],
            b: numbers[1],
            c: numbers[2],
            d: numbers[3],
            e: numbers[4],
            f: numbers[5],
        }
    }

    /// Returns a move by a distance.
    pub(crate) const fn moved(x: f64, y: f64) -> Self {
        Self::new([1.0, 0.0, 0.0, 1.0, x, y])
    }

    /// Returns the matrix of an array of six numbers.
    pub(crate) fn from_array(array: &Array<'_>) -> Option<Self> {
        let numbers = array.iter::<Number>().map(|number| number.as_f64());
        let numbers: Vec<f64> = numbers.take(6).collect();
        numbers.try_into().ok().map(Self::new)
    }

    /// Returns this transformation followed by another one.
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            a: self.a * next.a + self.b * next.c,
            b: self.a * next.b + self.b * next.d,
            c: self.c * next.a + self.d * next.c,
            d: self.c * next.b + self.d * next.d,
            e: self.e * next.a + self.f * next.c + next.e,
            f: self.e * next.b + self.f * next.d + next.f,
        }
    }
}
