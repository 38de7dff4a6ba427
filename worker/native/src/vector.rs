//! Vectors in fixed point: 16-bit integers, with exact integer products.

/// The length of a normalised vector, as `worker.coversumm.fixed_point.SCALE`.
pub const SCALE: i64 = 32767;
/// Added to a double below 2^51 and subtracted again it leaves the nearest integer, halves to even.
const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Room for the steps of a decoding, to be used again.
#[derive(Default)]
pub struct Workspace {
    bytes: Vec<u8>,
    squares: Vec<f64>,
}

impl Workspace {
    /// Appends the vector that is `text` in base64, in fixed point: the result of
    /// `fixed_point.quantize_rows`. `None`: it is not one of this dimension, zero, or not finite.
    pub fn decode(&mut self, text: &str, dimension: usize, vectors: &mut Vec<i16>) -> Option<()> {
        if text.len() != (4 * dimension).div_ceil(3) * 4 {
            return None;
        }
        self.bytes.clear();
        self.bytes.resize(text.len() / 4 * 3, 0);
        let out = base64_simd::Out::from_slice(&mut self.bytes);
        let bytes = base64_simd::STANDARD.decode(text.as_bytes(), out).ok()?;
        if bytes.len() != 4 * dimension {
            return None;
        }
        quantize(bytes, &mut self.squares, vectors)
    }
}

/// Whether this is base64, as blank sentences may have it.
pub fn is_base64(text: &str) -> bool {
    base64_simd::STANDARD.check(text.as_bytes()).is_ok()
}

fn quantize(bytes: &[u8], squares: &mut Vec<f64>, vectors: &mut Vec<i16>) -> Option<()> {
    let words = bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
    let largest = words
        .clone()
        .fold(0, |largest, word| largest.max(word & 0x7fff_ffff));
    if largest == 0 || largest >= 0x7f80_0000 {
        return None;
    }
    let numbers = words.map(|word| f64::from(f32::from_bits(word)));
    squares.clear();
    squares.extend(numbers.clone().map(|number| number * number));
    let norm = folded(squares).sqrt();
    vectors.extend(numbers.map(|number| {
        let exact = SCALE as f64 * number / norm;
        (exact + ROUNDER - ROUNDER) as i16
    }));
    Some(())
}

/// The sum, added in the order of `fixed_point._squared_norms`.
fn folded(squares: &mut [f64]) -> f64 {
    let mut width = squares.len();
    while width > 1 {
        let half = width.div_ceil(2);
        let (low, high) = squares[..width].split_at_mut(half);
        for (sum, square) in low.iter_mut().zip(high) {
            *sum += *square;
        }
        width = half;
    }
    squares[0]
}

/// x.y; `square` of both is below 2^31, so is any part of the sum (Cauchy-Schwarz).
pub fn dot(x: &[i16], y: &[i16]) -> i64 {
    let products = x.iter().zip(y).map(|(a, b)| i32::from(*a) * i32::from(*b));
    products.fold(0, i32::wrapping_add).into()
}

/// |x|^2.
pub fn square(x: &[i16]) -> i64 {
    x.iter().map(|a| i64::from(*a) * i64::from(*a)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(numbers: &[f32]) -> Option<Vec<i16>> {
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let text = base64_simd::STANDARD.encode_to_string(bytes);
        let mut vectors = Vec::new();
        Workspace::default().decode(&text, numbers.len(), &mut vectors)?;
        Some(vectors)
    }

    #[test]
    fn as_the_documentation_says() {
        assert_eq!(decoded(&[3.0, 4.0]).unwrap(), [19660, 26214]);
        assert_eq!(decoded(&[0.0, -2.0]).unwrap(), [0, -32767]);
        assert_eq!(
            decoded(&[f32::MIN_POSITIVE / 4.0, 0.0]).unwrap(),
            [32767, 0]
        );
        assert_eq!(decoded(&[f32::MAX, f32::MAX]).unwrap(), [23170, 23170]);
    }

    #[test]
    fn refuses_other_vectors() {
        assert_eq!(decoded(&[0.0, -0.0]), None);
        assert_eq!(decoded(&[f32::NAN, 1.0]), None);
        assert_eq!(decoded(&[f32::NEG_INFINITY, 1.0]), None);
        let mut vectors = Vec::new();
        for text in [
            "",
            "AACAPwAAgD8",
            "AACAPwAAgD9=",
            "AACAPwAAgD8=\n",
            "AACAPwAAgD-_",
        ] {
            assert_eq!(
                Workspace::default().decode(text, 2, &mut vectors),
                None,
                "{text}"
            );
        }
        assert!(vectors.is_empty());
    }

    #[test]
    fn products_are_exact() {
        let x: Vec<i16> = (0..384).map(|i| (i * 37 % 3001 - 1500) as i16).collect();
        let y: Vec<i16> = (0..384).map(|i| (i * 91 % 2503 - 1200) as i16).collect();
        let exact: i64 = x
            .iter()
            .zip(&y)
            .map(|(a, b)| i64::from(*a) * i64::from(*b))
            .sum();
        assert_eq!(dot(&x, &y), exact);
        assert_eq!(square(&x), dot(&x, &x));
    }
}
