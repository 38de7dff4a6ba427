//! Vectors in fixed point: 16-bit integers, with exact integer products.

/// The length of a normalised vector, as `worker.coversumm.fixed_point.SCALE`.
pub const SCALE: i64 = 32767;
/// One of many that are added and removed: an allocation of its own leaves no hole of another size.
pub type Row = Box<[i16]>;
/// Vectors that fit, beside a row, into the nearest cache of a core.
pub const AT_ONCE: usize = 16;
/// Added to a double below 2^51 and subtracted again it leaves the nearest integer, halves to even.
const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// A function that is compiled again for processors with wider registers; the results are the same.
macro_rules! widest {
    ($(#[$doc:meta])* $seen:vis fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty
     $body:block) => {
        $(#[$doc])*
        $seen fn $name($($arg: $type),*) -> $out {
            #[inline(always)]
            fn any($($arg: $type),*) -> $out $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) -> $out {
                    any($($arg),*)
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: this processor has the instructions.
                    return unsafe { avx2($($arg),*) };
                }
            }
            any($($arg),*)
        }
    };
}

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
        quantize(bytes, &mut self.squares, vectors).then_some(())
    }
}

/// Whether this is base64, as blank sentences may have it.
pub fn is_base64(text: &str) -> bool {
    base64_simd::STANDARD.check(text.as_bytes()).is_ok()
}

widest! {
    /// Appends the vector of these bytes of 32-bit floats; whether it is finite and not zero.
    fn quantize(bytes: &[u8], squares: &mut Vec<f64>, vectors: &mut Vec<i16>) -> bool {
        let word = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let words = || bytes.chunks_exact(4).map(word);
        let largest = words().fold(0, |largest, word| largest.max(word & 0x7fff_ffff));
        if largest == 0 || largest >= 0x7f80_0000 {
            return false;
        }
        let numbers = || words().map(|word| f64::from(f32::from_bits(word)));
        squares.clear();
        squares.extend(numbers().map(|number| number * number));
        let norm = folded(squares).sqrt();
        vectors.extend(numbers().map(|number| {
            let exact = SCALE as f64 * number / norm;
            (exact + ROUNDER - ROUNDER) as i32 as i16
        }));
        true
    }
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

/// Of each y, of at most `AT_ONCE`, its products x.y with the rows, which are read from memory once
/// for all. A square below 2^31 of each makes any part of x.y so too (Cauchy-Schwarz).
pub fn products_of(rows: &[Row], ys: &[&[i16]]) -> Vec<Vec<i64>> {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide(rows: &[Row], ys: &[&[i16]]) -> Vec<Vec<i64>> {
            products_by(rows, ys, |x, y| wide_product(x, y))
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has the instructions.
            return unsafe { wide(rows, ys) };
        }
    }
    products_by(rows, ys, product)
}

#[inline(always)]
fn products_by(
    rows: &[Row],
    ys: &[&[i16]],
    product: impl Fn(&[i16], &[i16]) -> i32,
) -> Vec<Vec<i64>> {
    let mut products = vec![vec![0; rows.len()]; ys.len()];
    for (at, x) in rows.iter().enumerate() {
        for (y, products) in ys.iter().zip(&mut products) {
            products[at] = product(x, y).into();
        }
    }
    products
}

fn product(x: &[i16], y: &[i16]) -> i32 {
    let parts = x.iter().zip(y).map(|(a, b)| i32::from(*a) * i32::from(*b));
    parts.fold(0, i32::wrapping_add)
}

/// As `product`, with registers of twice the width that the compiler takes by itself.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_product(x: &[i16], y: &[i16]) -> i32 {
    use std::arch::x86_64::*;
    let ((xs, x), (ys, y)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
    // SAFETY: it may lie anywhere.
    let load = |sixteen: &[i16; 16]| unsafe { _mm256_loadu_si256(sixteen.as_ptr().cast()) };
    let mut sums = _mm256_setzero_si256();
    for (a, b) in xs.iter().zip(ys) {
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(load(a), load(b)));
    }
    let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let sums = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
    let sum = _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32::<1>(sums)));
    sum.wrapping_add(product(x, y))
}

widest! {
    /// The product x.total of each row x, `total` being the sum of fewer than 2^16 rows.
    pub fn products_with(rows: &[&[i16]], total: &[i32]) -> Vec<i64> {
        let product = |x: &&[i16]| {
            let parts = x.iter().zip(total).map(|(a, b)| i64::from(i32::from(*a)) * i64::from(*b));
            parts.sum()
        };
        rows.iter().map(product).collect()
    }
}

widest! {
    /// The sum of fewer than 2^16 rows.
    pub fn total(rows: &[&[i16]], dimension: usize) -> Vec<i32> {
        let mut total = vec![0; dimension];
        for x in rows {
            for (sum, number) in total.iter_mut().zip(*x) {
                *sum += i32::from(*number);
            }
        }
        total
    }
}

widest! {
    /// |x|^2.
    pub fn square(x: &[i16]) -> i64 {
        x.iter().map(|a| i64::from(i32::from(*a) * i32::from(*a))).sum()
    }
}

/// The vectors of these bytes, in which they are one after the other.
pub fn read_vectors(bytes: &[u8], dimension: usize) -> Vec<Row> {
    let number = |two: &[u8]| i16::from_le_bytes([two[0], two[1]]);
    let vector = |one: &[u8]| one.chunks_exact(2).map(number).collect();
    bytes.chunks_exact(2 * dimension).map(vector).collect()
}

/// Appends the vector as rows have it.
pub fn write_vector(out: &mut Vec<u8>, vector: &[i16]) {
    let start = out.len();
    out.resize(start + 2 * vector.len(), 0);
    for (bytes, number) in out[start..].chunks_exact_mut(2).zip(vector) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(numbers: &[f32]) -> Option<Vec<i16>> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let text = base64_simd::STANDARD.encode_to_string(bytes);
        let mut vectors = Vec::new();
        Workspace::default().decode(&text, numbers.len(), &mut vectors)?;
        Some(vectors)
    }

    #[test]
    fn as_the_documentation_says() {
        assert_eq!(decoded(&[3.0, 4.0]).unwrap(), [19660, 26214]);
        assert_eq!(decoded(&[0.0, -2.0]).unwrap(), [0, -32767]);
        assert_eq!(decoded(&[f32::MIN_POSITIVE / 4.0, 0.0]).unwrap(), [32767, 0]);
        assert_eq!(decoded(&[f32::MAX, f32::MAX]).unwrap(), [23170, 23170]);
    }

    #[test]
    fn refuses_other_vectors() {
        assert_eq!(decoded(&[0.0, -0.0]), None);
        assert_eq!(decoded(&[f32::NAN, 1.0]), None);
        assert_eq!(decoded(&[f32::NEG_INFINITY, 1.0]), None);
        let mut vectors = Vec::new();
        for text in ["", "AACAPwAAgD8", "AACAPwAAgD9=", "AACAPwAAgD8=\n", "AACAPwAAgD-_"] {
            assert_eq!(Workspace::default().decode(text, 2, &mut vectors), None, "{text}");
        }
        assert!(vectors.is_empty());
    }

    #[test]
    fn products_are_exact() {
        let x: Vec<i16> = (0..384).map(|i| (i * 37 % 3001 - 1500) as i16).collect();
        let y: Vec<i16> = (0..384).map(|i| (i * 91 % 2503 - 1200) as i16).collect();
        let exact: i64 = x.iter().zip(&y).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        let rows: [Row; 2] = [x.clone().into(), y.clone().into()];
        let many = vec![y.as_slice(); AT_ONCE];
        assert_eq!(products_of(&rows, &many), vec![[exact, square(&y)]; many.len()]);
        for length in [3, 16, 37] {
            let (x, y) = (&x[..length], &y[..length]);
            let exact: i64 = x.iter().zip(y).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
            assert_eq!(products_of(&[x.into()], &[y]), [[exact]]);
            assert_eq!(i64::from(product(x, y)), exact);
        }
        let rows = rows.each_ref().map(|row| &**row);
        let sum = total(&rows, x.len());
        assert_eq!(products_with(&rows, &sum), [square(&x) + exact, exact + square(&y)]);
    }
}
