//! The k sentences of a set nearest to its centroid: `worker.coversumm` in integers alone.
//!
//! The key of a sentence x is `n*|x|^2 - 2*x.S`, S being the sum of the n vectors that count. A
//! small set has the keys of all its sentences. A larger one has those near an anchor, the centroid
//! S0/n0 of its last search: exactly the ones with `n0*|x|^2 - 2*x.S0` below the key of a radius.
//! Lemmas 3, 4 and 6 of docs/algorithm.md prove that these suffice. Identical vectors are one point.

use crate::vector::{Coarse, SCALE, Sum, Vectors, add_to, product_with};
use std::cmp::Ordering;
use std::mem::replace;

/// Sentences of a set without a radius. Below 100 to 200 all distances take less time.
const FEW: usize = 256;
/// Sentences that a search looks at in one event, if the set has more than twice as many.
const AT_ONCE: usize = if cfg!(test) { 64 } else { 2048 };

/// How often a vector with several live sentences is shown, and counts in the centroid.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub enum Copies {
    #[default]
    Each,
    ShownOnce,
    CountedOnce,
}

/// The centroid S/n of the sentences that count.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Centroid {
    pub n: i64,
    /// |S|^2.
    pub total_square: i128,
}

impl Centroid {
    /// The distance of a sentence with this key in millionths, halves up:
    /// sqrt((n*key + |S|^2) / (n*scale)^2).
    pub fn micros(self, key: i64) -> u64 {
        let numerator = i128::from(self.n) * i128::from(key) + self.total_square;
        let scale = u128::from(self.n.unsigned_abs()) * SCALE.unsigned_abs() as u128;
        let quadruple = 4_000_000_000_000 * numerator.unsigned_abs() / (scale * scale);
        (quadruple.isqrt() as u64).div_ceil(2)
    }
}

/// A sentence of a ranking: its key, its place, and how many of the set have its vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    pub key: i64,
    pub row: u32,
    pub support: u32,
}

/// The sentences of a set with one vector.
#[derive(Debug)]
struct Point {
    /// The one with the lowest id, and the others by id.
    row: u32,
    others: Vec<u32>,
    /// x.S.
    product: i64,
    /// Around the anchor, if the set has one.
    key: i64,
}

/// The points of a set that lie near its anchor.
#[derive(Default, Debug)]
struct Ball {
    /// S.
    total: Vec<i64>,
    /// S0 and n0, |S0|^2, S.S0.
    anchor: Vec<i64>,
    anchor_n: i64,
    anchor_square: i128,
    with_anchor: i128,
    /// Points inside have a lower key around the anchor.
    radius: i64,
    /// Points that a search looks for, and those at which the radius shrinks.
    target: usize,
    most: usize,
    /// Changes of the sum and rankings since the search, and the most room that one of these left.
    changes: usize,
    age: usize,
    most_room: i128,
}

/// A search of all sentences of a set for a new ball, as far as it is. While it goes on, the points
/// of the old one serve, if they prove it.
#[derive(Debug)]
struct Search {
    ball: Ball,
    /// Places before this one were looked at: of their sentences it has those inside the ball.
    next: usize,
    found: Vec<(i64, u32)>,
}

/// Sentences by place: their vectors, and the order of their ids.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub vectors: &'a Vectors,
    pub by_id: &'a dyn Fn(u32, u32) -> Ordering,
}

/// A set of sentences with its nearest ones.
#[derive(Default, Debug)]
pub struct Reservoir {
    k: usize,
    copies: Copies,
    pub centroid: Centroid,
    points: Vec<Point>,
    ball: Option<Box<Ball>>,
    search: Option<Box<Search>>,
    /// Of all sentences, begun so far.
    pub searches: usize,
}

impl Point {
    fn rows(&self) -> impl Iterator<Item = u32> {
        [self.row].into_iter().chain(self.others.iter().copied())
    }

    fn insert(&mut self, mut row: u32, live: Live) {
        if (live.by_id)(row, self.row).is_lt() {
            row = replace(&mut self.row, row);
        }
        let place = self.others.partition_point(|other| (live.by_id)(*other, row).is_lt());
        self.others.insert(place, row);
    }

    /// Whether none is left.
    fn remove(&mut self, row: u32, live: Live) -> bool {
        let place = self.others.partition_point(|other| (live.by_id)(*other, row).is_lt());
        if row != self.row {
            self.others.remove(place);
        } else if self.others.is_empty() {
            return true;
        } else {
            self.row = self.others.remove(0);
        }
        false
    }
}

impl Reservoir {
    pub fn new(k: usize, copies: Copies) -> Self {
        Reservoir { k, copies, ..Reservoir::default() }
    }

    /// Begin with the sentences of all moves so far. Of those that count in the centroid, each move
    /// has the sign, 1 if they join and -1 if they leave, how many they are, and their sum.
    pub fn begin(&mut self, live: Live, moves: &[(i64, &Sum)], is_in: impl Fn(u32) -> bool) {
        let (mut n, mut total) = (self.centroid.n, self.total(live.vectors));
        for (sign, (count, sum)) in moves {
            n += sign * count;
            total.iter_mut().zip(sum).for_each(|(own, other)| *own += sign * other);
        }
        self.centroid = Centroid { n, total_square: product_of(&total, &total) };
        (self.ball, self.search) = (None, None);
        self.search_now(live, total, self.smallest(), is_in);
    }

    /// Different vectors among those that are near.
    pub fn size(&self) -> usize {
        self.points.len()
    }

    fn smallest(&self) -> usize {
        (3 * self.k + 4).max(32)
    }

    /// Add a sentence. `all`: its products with all vectors, where they are known.
    pub fn add(&mut self, live: Live, row: u32, all: Option<&[i64]>, is_counting: bool) {
        let (vectors, own) = (live.vectors, live.vectors.square(row));
        let products = self.products(vectors, row, all);
        let copy = self.point_of(vectors, own, &products);
        let counted = is_counting.then(|| self.count(vectors.get(row), own, &products, 1));
        self.search.iter_mut().for_each(|search| search.add(vectors, row));
        match (copy, counted) {
            (Some(at), _) => self.points[at].insert(row, live),
            (None, Some((before, key))) if self.ball.as_ref().is_none_or(|of| key < of.radius) => {
                let product = before + own;
                self.points.push(Point { row, others: Vec::new(), product, key });
            }
            _ => (), // too far; so are its copies, if they count for it
        }
    }

    /// Remove a sentence, likewise, which is still among the vectors.
    pub fn remove(&mut self, live: Live, row: u32, all: Option<&[i64]>, is_counting: bool) {
        let (vectors, own) = (live.vectors, live.vectors.square(row));
        let products = self.products(vectors, row, all);
        let place = self.point_of(vectors, own, &products);
        self.search.iter_mut().for_each(|search| search.found.retain(|(_, other)| *other != row));
        if is_counting {
            self.count(vectors.get(row), own, &products, -1);
        }
        if let Some(at) = place.filter(|at| self.points[*at].remove(row, live)) {
            self.points.swap_remove(at);
        }
    }

    /// The products of a vector with those of the points.
    fn products(&self, vectors: &Vectors, row: u32, all: Option<&[i64]>) -> Vec<i64> {
        let rows = self.points.iter().map(|point| point.row);
        match all {
            Some(all) => rows.map(|at| all[at as usize]).collect(),
            None => vectors.products(rows, vectors.get(row)),
        }
    }

    /// The point of the vector of this square with these products: x.y = |x|^2 = |y|^2 if and only
    /// if x = y (Cauchy-Schwarz).
    fn point_of(&self, vectors: &Vectors, own: i64, products: &[i64]) -> Option<usize> {
        let is_copy =
            |at: &usize| products[*at] == own && vectors.square(self.points[*at].row) == own;
        (0..products.len()).find(is_copy)
    }

    /// Count a vector x in the centroid (1), or no more (-1), and return x.S of before, and its key
    /// around the anchor.
    fn count(&mut self, x: &[i16], own: i64, products: &[i64], sign: i64) -> (i64, i64) {
        let (before, key) = match &mut self.ball {
            Some(ball) => ball.count(x, own, sign),
            None => {
                let each = self.points.iter().zip(products);
                (each.map(|(point, product)| self.times(point) * product).sum(), 0)
            }
        };
        self.centroid.n += sign;
        self.centroid.total_square += i128::from(2 * sign * before + own);
        for (point, product) in self.points.iter_mut().zip(products) {
            point.product += sign * product;
        }
        (before, key)
    }

    /// S.
    fn total(&self, vectors: &Vectors) -> Vec<i64> {
        if let Some(ball) = &self.ball {
            return ball.total.clone();
        }
        let mut total = vec![0; vectors.dimension];
        let add = |point: &Point| add_to(&mut total, vectors.get(point.row), self.times(point));
        self.points.iter().for_each(add);
        total
    }

    /// How often a point counts in the centroid.
    fn times(&self, point: &Point) -> i64 {
        if self.copies == Copies::CountedOnce { 1 } else { 1 + point.others.len() as i64 }
    }

    // -- the nearest

    /// The k nearest to the centroid in rank order, by id where keys are equal. `is_in`: whether a
    /// vector is of the set.
    pub fn rank(&mut self, live: Live, is_in: impl Fn(u32) -> bool) -> Vec<Ranked> {
        if let Some(search) = self.search.take_if(|search| search.go_on(live.vectors, &is_in)) {
            self.take(live, *search);
        }
        self.trim(live.vectors);
        let ranked = self.nearest(live);
        let (room, centroid, smallest) = (self.room(&ranked), self.centroid, self.smallest());
        let Some(ball) = &mut self.ball else { return ranked };
        let is_proved = room > 0;
        if is_proved
            && (self.search.is_some() || !ball.is_ending(room, centroid.n, self.points.len()))
        {
            return ranked;
        }
        self.searches += 1;
        let (total, target) = (ball.total.clone(), ball.next_target(centroid.n as usize, smallest));
        if is_proved {
            self.search = Some(Search::new(total, centroid, target).into());
            return ranked;
        }
        self.search = None;
        self.search_now(live, total, target, is_in);
        self.nearest(live)
    }

    /// Likewise, after a ranking that nothing has changed since.
    pub fn nearest(&self, live: Live) -> Vec<Ranked> {
        let (n, k) = (self.centroid.n, self.k);
        let key = |point: &Point| n * live.vectors.square(point.row) - 2 * point.product;
        let mut keys: Vec<(i64, u32)> = self.points.iter().map(key).zip(0..).collect();
        if k < keys.len() {
            let (_, (last, _), _) = keys.select_nth_unstable(k - 1);
            let last = *last;
            keys.retain(|one| one.0 <= last);
        }
        let most = if self.copies == Copies::Each { k } else { 1 };
        let mut ranked = Vec::with_capacity(keys.len());
        for (key, at) in keys {
            let point = &self.points[at as usize];
            let support = 1 + point.others.len() as u32;
            ranked.extend(point.rows().take(most).map(|row| Ranked { key, row, support }));
        }
        ranked.sort_unstable_by(|a, b| a.key.cmp(&b.key).then_with(|| (live.by_id)(a.row, b.row)));
        ranked.truncate(k);
        ranked
    }

    /// Above 0 if no other sentence of the set is as near as the last of these (Lemma 6): how much
    /// farther it may be.
    fn room(&mut self, ranked: &[Ranked]) -> i128 {
        let Some(ball) = &mut self.ball else { return i128::MAX };
        ball.age += 1;
        match ranked.get(self.k - 1) {
            _ if ball.radius == i64::MAX => i128::MAX,
            Some(last) => ball.room(self.centroid, last.key),
            None => 0,
        }
    }

    /// Find a radius for a set that has grown, or a smaller one, unless it is for a search in parts.
    fn trim(&mut self, vectors: &Vectors) {
        let (smallest, centroid) = (self.smallest(), self.centroid);
        let most = self.ball.as_ref().map_or(FEW.max(2 * smallest), |ball| ball.most);
        let is_in_parts = self.ball.as_ref().is_some_and(|ball| ball.parts(centroid.n) > 1);
        if self.points.len() <= most || is_in_parts {
            return;
        }
        if self.ball.is_none() {
            for point in &mut self.points {
                point.key = centroid.n * vectors.square(point.row) - 2 * point.product;
            }
            self.ball = Some(Ball::around(self.total(vectors), centroid, smallest).into());
        }
        let Some(ball) = &mut self.ball else { return };
        let keys = self.points.iter().map(|point| point.key).collect();
        if let Some(radius) = first_beyond(keys, ball.target) {
            ball.radius = radius;
            self.points.retain(|point| point.key < radius);
        }
        ball.most = 2 * ball.target.max(self.points.len());
    }

    /// Take the nearest of all sentences of the set, whose sum is `total`: about `target` of them.
    fn search_now(
        &mut self,
        live: Live,
        total: Vec<i64>,
        target: usize,
        is_in: impl Fn(u32) -> bool,
    ) {
        let target = if self.centroid.n <= FEW as i64 { usize::MAX / 2 } else { target };
        let mut search = Search::new(total, self.centroid, target);
        while !search.go_on(live.vectors, &is_in) {}
        self.take(live, search);
    }

    /// Take what a search has found.
    fn take(&mut self, live: Live, Search { mut ball, mut found, .. }: Search) {
        let (vectors, n) = (live.vectors, ball.anchor_n);
        ball.cut(&mut found);
        if let Some(old) = self.ball.take() {
            ball.total = old.total;
        }
        let is_old = ball.total != ball.anchor;
        if is_old {
            ball.with_anchor = product_of(&ball.total, &ball.anchor);
        }
        found.sort_unstable();
        self.points.clear();
        for (key, row) in found {
            let alike = self.points.iter_mut().rev().take_while(|point| point.key == key);
            match alike.into_iter().find(|one| vectors.get(one.row) == vectors.get(row)) {
                Some(point) => point.others.push(row),
                None => {
                    let product = match is_old {
                        true => product_with(vectors.get(row), &ball.total),
                        false => (n * vectors.square(row) - key) / 2,
                    };
                    self.points.push(Point { row, others: Vec::new(), product, key });
                }
            }
        }
        for point in self.points.iter_mut().filter(|point| !point.others.is_empty()) {
            let mut rows: Vec<u32> = point.rows().collect();
            rows.sort_unstable_by(|one, other| (live.by_id)(*one, *other));
            point.row = rows.remove(0);
            point.others = rows;
        }
        ball.most = 2 * ball.target.max(self.points.len());
        self.ball = (ball.radius < i64::MAX).then(|| ball.into());
    }

    /// Approximate bytes in memory beside its own.
    pub fn measure(&self) -> usize {
        let balls = usize::from(self.ball.is_some()) + usize::from(self.search.is_some());
        let dimension = self.ball.as_ref().map_or(0, |ball| ball.total.len());
        let ball = balls * (16 * dimension + size_of::<Search>());
        let others = |point: &Point| 4 * point.others.capacity();
        ball + self.points.capacity() * size_of::<Point>()
            + self.points.iter().map(others).sum::<usize>()
    }
}

impl Ball {
    /// One of all points, around the present centroid.
    fn around(total: Vec<i64>, centroid: Centroid, target: usize) -> Self {
        let (anchor_n, anchor_square) = (centroid.n, centroid.total_square);
        let (anchor, with_anchor) = (total.clone(), anchor_square);
        let (radius, most) = (i64::MAX, 2 * target);
        let ball = Ball { total, anchor, anchor_n, anchor_square, with_anchor, ..Ball::default() };
        Ball { radius, target, most, ..ball }
    }

    /// See `Reservoir::count`.
    fn count(&mut self, x: &[i16], own: i64, sign: i64) -> (i64, i64) {
        let before = product_with(x, &self.total);
        let with_anchor = product_with(x, &self.anchor);
        self.with_anchor += i128::from(sign * with_anchor);
        self.changes += 1;
        add_to(&mut self.total, x, sign);
        (before, self.anchor_n * own - 2 * with_anchor)
    }

    /// Above 0 if all that is outside is farther from the centroid than a sentence of this key:
    /// with N = n*n0, N*radius - N*distance - N*drift, each a square root of an integer.
    fn room(&self, centroid: Centroid, key: i64) -> i128 {
        let (n, n0) = (i128::from(centroid.n), i128::from(self.anchor_n));
        let distance = n0 * n0 * (n * i128::from(key) + centroid.total_square);
        let drift = n0 * n0 * centroid.total_square - 2 * n * n0 * self.with_anchor
            + n * n * self.anchor_square;
        let radius = n * n * (n0 * i128::from(self.radius) + self.anchor_square);
        root(radius) - (root(distance) + 1 + root(drift))
    }

    /// Rankings that a search takes.
    fn parts(&self, n: i64) -> i64 {
        if self.radius < i64::MAX { n / AT_ONCE as i64 } else { 0 }
    }

    /// Whether a search in parts has to begin: there are too many points, or an eighth of the room
    /// is left, or as much as such a search uses up three times, at the pace of those since the last
    /// one.
    fn is_ending(&mut self, room: i128, n: i64, points: usize) -> bool {
        let (room, parts) = (room / i128::from(n), self.parts(n));
        self.most_room = self.most_room.max(room);
        let is_late = room * self.age as i128 <= 3 * i128::from(parts) * (self.most_room - room);
        parts > 1 && (is_late || room <= self.most_room / 8 || points > self.most)
    }

    /// Leave out what is beyond the lowest `target` keys, if there are as many.
    fn cut(&mut self, found: &mut Vec<(i64, u32)>) {
        if let Some(beyond) = first_beyond(found.iter().map(|one| one.0).collect(), self.target) {
            self.radius = beyond;
            found.retain(|one| one.0 < beyond);
        }
    }

    /// The points that the next search looks for: a search visits all sentences, each change the
    /// points.
    fn next_target(&self, n: usize, smallest: usize) -> usize {
        match self.changes * self.target {
            visited if visited < n => (2 * self.target).min(64 * smallest),
            visited if visited > 16 * n => (self.target / 2).max(smallest),
            _ => self.target,
        }
    }
}

/// The product of two sums.
fn product_of(one: &[i64], other: &[i64]) -> i128 {
    one.iter().zip(other).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum()
}

/// Rounded down.
fn root(square: i128) -> i128 {
    square.unsigned_abs().isqrt() as i128
}

/// The lowest key above so many different ones, if there is one.
fn first_beyond(mut keys: Vec<i64>, count: usize) -> Option<i64> {
    keys.sort_unstable();
    keys.dedup();
    keys.get(count).copied()
}

impl Search {
    /// One around the present centroid that has looked at nothing.
    fn new(total: Vec<i64>, centroid: Centroid, target: usize) -> Self {
        Search { ball: Ball::around(total, centroid, target), next: 0, found: Vec::new() }
    }

    /// Look at the next sentences of the set, and keep those with the lowest different keys, about
    /// `target`; whether it was through. Most keys are only bounded, from below.
    fn go_on(&mut self, vectors: &Vectors, is_in: impl Fn(u32) -> bool) -> bool {
        let (ball, found, places) = (&mut self.ball, &mut self.found, vectors.places());
        let coarse = Coarse::of(&ball.anchor, vectors.largest());
        let rows = (self.next as u32..places as u32).filter(|row| is_in(*row));
        let rows: Vec<u32> = rows.take(AT_ONCE).collect();
        let last = rows.last().filter(|_| rows.len() == AT_ONCE);
        self.next = last.map_or(places, |row| *row as usize + 1);
        let products = vectors.products(rows.iter().copied(), &coarse.vector);
        for (row, product) in rows.into_iter().zip(products) {
            let own = ball.anchor_n * vectors.square(row);
            if ball.radius < i64::MAX && own - 2 * coarse.most(product) >= ball.radius {
                continue;
            }
            let key = own - 2 * product_with(vectors.get(row), &ball.anchor);
            if key < ball.radius {
                found.push((key, row));
            }
            if found.len() > ball.most {
                ball.cut(found);
                ball.most = 2 * found.len().max(ball.target);
            }
        }
        self.next == places
    }

    /// A sentence comes.
    fn add(&mut self, vectors: &Vectors, row: u32) {
        let x = vectors.get(row);
        let key = self.ball.anchor_n * vectors.square(row) - 2 * product_with(x, &self.ball.anchor);
        if (row as usize) < self.next && key < self.ball.radius {
            self.found.push((key, row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Row;
    use std::collections::BTreeMap;

    /// Numbers that look random.
    struct Draws(u64);

    impl Draws {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % most
        }

        /// A vector near a corner that moves slowly.
        fn vector(&mut self, dimension: usize, step: u64) -> Row {
            let length = if step.is_multiple_of(3) { 4 } else { 9000 };
            let number = |at: usize| {
                let centre = if at as u64 == step / 500 % dimension as u64 { length } else { 0 };
                (centre + self.below(length)) as i16 - 2
            };
            let mut x: Row = (0..dimension).map(number).collect();
            x[0] = x[0].max(1);
            x
        }
    }

    fn by_brute_force(vectors: &Vectors, k: usize, copies: Copies) -> (Centroid, Vec<Ranked>) {
        let mut points = BTreeMap::<&[i16], Vec<u32>>::new();
        for row in (0..vectors.places() as u32).filter(|row| vectors.has(*row)) {
            points.entry(vectors.get(row)).or_default().push(row);
        }
        let (mut n, mut total) = (0, vec![0; vectors.dimension]);
        for (x, rows) in &points {
            let times = if copies == Copies::CountedOnce { 1 } else { rows.len() as i64 };
            n += times;
            add_to(&mut total, x, times);
        }
        let mut ranked = Vec::new();
        for (x, rows) in &points {
            let key = n * vectors.square(rows[0]) - 2 * product_with(x, &total);
            let shown = if copies == Copies::Each { rows.len() } else { 1 };
            let support = rows.len() as u32;
            ranked.extend(rows[..shown].iter().map(|row| Ranked { key, row: *row, support }));
        }
        ranked.sort_by_key(|one| (one.key, one.row));
        ranked.truncate(k);
        let total_square = product_of(&total, &total);
        (Centroid { n, total_square }, ranked)
    }

    /// The points are those inside, and products of sums are kept.
    fn check_ball(vectors: &Vectors, set: &Reservoir) {
        let Some(ball) = &set.ball else { return };
        let key = |row: u32| {
            ball.anchor_n * vectors.square(row) - 2 * product_with(vectors.get(row), &ball.anchor)
        };
        let all = (0..vectors.places() as u32).filter(|row| vectors.has(*row));
        let mut points: Vec<u32> = set.points.iter().flat_map(Point::rows).collect();
        points.sort_unstable();
        assert_eq!(points, all.filter(|row| key(*row) < ball.radius).collect::<Vec<u32>>());
        assert_eq!(ball.with_anchor, product_of(&ball.total, &ball.anchor));
    }

    /// A set that grows to 800 sentences and shrinks again, and how often it was searched.
    fn run(dimension: usize, k: usize, copies: Copies) -> usize {
        let (mut vectors, mut set) = (Vectors::new(dimension), Reservoir::new(k, copies));
        let (mut draws, mut live) = (Draws(dimension as u64), Vec::<u32>::new());
        let by_id = &|one: u32, other: u32| one.cmp(&other);
        for step in 0..2000 {
            let is_copy = |of: &Vectors, row| copies == Copies::CountedOnce && of.has_copy(row);
            if draws.below(10) < if step < 1000 { 9 } else { 2 } || live.is_empty() {
                let x = match draws.below(8) {
                    0 if !live.is_empty() => {
                        vectors.get(live[draws.below(live.len() as u64) as usize]).into()
                    }
                    _ => draws.vector(dimension, step),
                };
                let row = vectors.insert(x);
                set.add(Live { vectors: &vectors, by_id }, row, None, !is_copy(&vectors, row));
                live.push(row);
            } else {
                let row = live.swap_remove(draws.below(live.len() as u64) as usize);
                set.remove(Live { vectors: &vectors, by_id }, row, None, !is_copy(&vectors, row));
                vectors.remove(row);
            }
            let ranked = set.rank(Live { vectors: &vectors, by_id }, |row| vectors.has(row));
            let (centroid, exact) = by_brute_force(&vectors, k, copies);
            assert_eq!((set.centroid, ranked), (centroid, exact), "step {step}");
            check_ball(&vectors, &set);
        }
        set.searches
    }

    #[test]
    fn every_step_is_exact() {
        let searches = [
            run(3, 20, Copies::Each),
            run(12, 1, Copies::Each),
            run(8, 5, Copies::ShownOnce),
            run(8, 5, Copies::CountedOnce),
        ];
        assert!(searches.iter().sum::<usize>() > 15, "too few: {searches:?}");
    }
}
