//! Vectors in fixed point: 16-bit integers, with exact integer products.

/// The length of a normalised vector, as `worker.coversumm.fixed_point.SCALE`.
pub const SCALE: i64 = 32767;
/// One of many that are added and removed: an allocation of its own leaves no hole of another size.
pub type Row = Box<[i16]>;
/// How many vectors, and their sum.
pub type Sum = (i64, Vec<i64>);
/// Vectors that fit, beside a row, into the nearest cache of a core.
pub const AT_ONCE: usize = 16;
/// Vectors whose products are computed once for all sets that need some of them.
const FEW: usize = 256;
/// Bytes that an allocation takes beside its own.
const ALLOCATED: usize = 16;
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

/// x.y. A square below 2^31 of each makes any part of it so too (Cauchy-Schwarz).
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
    /// As `product`, of vectors of any length.
    fn long_product(x: &[i16], y: &[i16]) -> i64 {
        x.iter().zip(y).map(|(a, b)| i64::from(i32::from(*a) * i32::from(*b))).sum()
    }
}

widest! {
    /// The product x.total, `total` being a sum of vectors.
    pub fn product_with(x: &[i16], total: &[i64]) -> i64 {
        x.iter().zip(total).map(|(a, b)| i64::from(*a) * *b).sum()
    }
}

widest! {
    /// Add a vector so many times.
    pub fn add_to(total: &mut [i64], x: &[i16], times: i64) -> () {
        for (sum, number) in total.iter_mut().zip(x) {
            *sum += times * i64::from(*number);
        }
    }
}

widest! {
    /// |x|^2.
    pub fn square(x: &[i16]) -> i64 {
        x.iter().map(|a| i64::from(i32::from(*a) * i32::from(*a))).sum()
    }
}

/// Vectors of one dimension at places that stay; those of removed ones are used again.
#[derive(Default, Debug)]
pub struct Vectors {
    rows: Vec<Row>,
    /// |x|^2 of each; -1: nothing is there.
    squares: Vec<i64>,
    free: Vec<u32>,
    largest: i64,
    pub dimension: usize,
}

impl Vectors {
    pub fn new(dimension: usize) -> Self {
        Vectors { dimension, ..Vectors::default() }
    }

    /// Insert the vectors of these bytes, in which they are one after the other.
    pub fn read(&mut self, bytes: &[u8]) {
        for one in bytes.chunks_exact(2 * self.dimension) {
            self.insert(numbers(one).collect());
        }
    }

    /// The place of a new vector.
    pub fn insert(&mut self, x: Row) -> u32 {
        let own = square(&x);
        self.largest = self.largest.max(own);
        if let Some(place) = self.free.pop() {
            (self.rows[place as usize], self.squares[place as usize]) = (x, own);
            return place;
        }
        push(&mut self.rows, x);
        push(&mut self.squares, own);
        self.rows.len() as u32 - 1
    }

    pub fn remove(&mut self, place: u32) {
        (self.rows[place as usize], self.squares[place as usize]) = (Row::default(), -1);
        self.free.push(place);
    }

    pub fn get(&self, place: u32) -> &[i16] {
        &self.rows[place as usize]
    }

    pub fn square(&self, place: u32) -> i64 {
        self.squares[place as usize]
    }

    pub fn has(&self, place: u32) -> bool {
        self.square(place) >= 0
    }

    /// The largest of all squares so far.
    pub fn largest(&self) -> i64 {
        self.largest
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Places, in use or free.
    pub fn places(&self) -> usize {
        self.rows.len()
    }

    /// Whether another place has this vector.
    pub fn has_copy(&self, place: u32) -> bool {
        let (own, x) = (self.square(place), self.get(place));
        let alike = (0..).zip(&self.squares).filter(|(_, other)| **other == own);
        alike.into_iter().any(|(other, _)| other != place && self.get(other) == x)
    }

    /// The sum of the vectors at these places.
    pub fn sum(&self, places: &[u32]) -> Sum {
        let mut sum = vec![0; self.dimension];
        places.iter().for_each(|place| add_to(&mut sum, self.get(*place), 1));
        (places.len() as i64, sum)
    }

    /// Its products with the vectors of these places.
    pub fn products(&self, places: impl Iterator<Item = u32>, x: &[i16]) -> Vec<i64> {
        if self.largest >= 1 << 31 {
            return places.map(|place| long_product(self.get(place), x)).collect();
        }
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            fn wide(of: &Vectors, places: impl Iterator<Item = u32>, x: &[i16]) -> Vec<i64> {
                places.map(|place| wide_product(of.get(place), x).into()).collect()
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: this processor has the instructions.
                return unsafe { wide(self, places, x) };
            }
        }
        places.map(|place| product(self.get(place), x).into()).collect()
    }

    /// Of each of these its products with all places, while they are few.
    pub fn products_with_all(&self, xs: &[&[i16]]) -> Vec<Vec<i64>> {
        let few = if self.rows.len() > FEW { &[] } else { xs };
        few.iter().map(|x| self.products(0..self.rows.len() as u32, x)).collect()
    }

    /// Approximate bytes in memory beside its own.
    pub fn measure(&self) -> usize {
        self.rows.capacity() * (size_of::<Row>() + size_of::<i64>())
            + self.count() * allocated(2 * self.dimension)
    }
}

/// A sum S of vectors in 16 bits, S = 2^shift*h + e, which bounds products x.S.
pub struct Coarse {
    /// h, so short that x.h fits as products of vectors do.
    pub vector: Vec<i16>,
    shift: u32,
    /// Not below any x.e.
    error: i64,
}

impl Coarse {
    /// `largest`: of |x|^2.
    pub fn of(total: &[i64], largest: i64) -> Self {
        let square: i128 = total.iter().map(|sum| i128::from(*sum).pow(2)).sum();
        let shift = (0..).find(|shift| square >> (2 * shift) <= 1 << 29).unwrap_or_default();
        let vector: Vec<i16> =
            total.iter().map(|sum| ((sum + (1 << shift >> 1)) >> shift) as i16).collect();
        let rest = |(sum, high): (&i64, &i16)| i128::from(sum - (i64::from(*high) << shift)).pow(2);
        let rest: i128 = total.iter().zip(&vector).map(rest).sum();
        let error = (rest * i128::from(largest)).unsigned_abs().isqrt() as i64 + 1;
        Coarse { vector, shift, error }
    }

    /// An upper bound of x.S for this x.h.
    pub fn most(&self, product: i64) -> i64 {
        (product << self.shift) + self.error
    }
}

/// What so many bytes take in memory.
pub fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + ALLOCATED }
}

/// Append to a list with room for an eighth more: there are many small ones.
pub fn push<T>(list: &mut Vec<T>, one: T) {
    if list.capacity() == list.len() {
        list.reserve_exact(list.len() / 8 + 1);
    }
    list.push(one);
}

/// The numbers of vectors as rows have them.
pub fn numbers(bytes: &[u8]) -> impl Iterator<Item = i16> {
    bytes.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]]))
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
    fn products_are_exact() {
        let x: Vec<i16> = (0..384).map(|i| (i * 37 % 3001 - 1500) as i16).collect();
        let y: Vec<i16> = (0..384).map(|i| (i * 91 % 2503 - 1200) as i16).collect();
        let exact: i64 = x.iter().zip(&y).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        let rows: [Row; 2] = [x.clone().into(), y.clone().into()];
        for length in [3, 16, 37] {
            let (x, y) = (&x[..length], &y[..length]);
            let exact: i64 = x.iter().zip(y).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
            let mut vectors = Vectors::new(length);
            vectors.insert(x.into());
            assert_eq!(vectors.products_with_all(&[y; 20]), [[exact]; 20]);
            assert_eq!(i64::from(product(x, y)), exact);
        }
        let mut sum = vec![0; x.len()];
        rows.iter().for_each(|row| add_to(&mut sum, row, 1));
        let coarse = Coarse::of(&sum, square(&x).max(square(&y)));
        let mut vectors = Vectors::new(x.len());
        let places = rows.map(|row| vectors.insert(row));
        assert_eq!(vectors.products(places.into_iter(), &x), [square(&x), exact]);
        for x in places.map(|place| vectors.get(place)) {
            let (rough, true_one) = (long_product(x, &coarse.vector), product_with(x, &sum));
            assert!((0..=2 * coarse.error).contains(&(coarse.most(rough) - true_one)));
        }
    }
}
