// SPDX-License-Identifier: GPL-2.0-or-later
//! k-means++ on numbers (Arthur, Vassilvitskii).

/// Lloyd's iterations end at the latest then.
const ITERATIONS: usize = 100;

/// At most `k` centers, ascending; fewer when there are fewer distinct values.
pub(crate) fn cluster(values: &[f64], k: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    // They stay in order, so that a value between two is always the lower one's.
    let mut centers = seed(values, k, random);
    centers.sort_by(f64::total_cmp);
    for _ in 0..ITERATIONS {
        let mut sums = vec![(0.0, 0u64); centers.len()];
        for v in values {
            if let Some(n) = nearest(&centers, *v) {
                sums[n].0 += v;
                sums[n].1 += 1;
            }
        }
        let mut moved: Vec<f64> = sums
            .iter()
            .zip(&centers)
            .map(|((sum, count), old)| if *count > 0 { sum / *count as f64 } else { *old })
            .collect();
        moved.sort_by(f64::total_cmp);
        if moved == centers {
            break;
        }
        centers = moved;
    }
    centers
}

pub(crate) fn nearest(centers: &[f64], value: f64) -> Option<usize> {
    let distance = |n: &usize| (centers[*n] - value).abs();
    (0..centers.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// Each next center is a value, with a probability in proportion to the square of
/// its distance to the nearest center so far.
fn seed(values: &[f64], k: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut centers = Vec::with_capacity(k);
    if values.is_empty() || k == 0 {
        return centers;
    }
    centers.push(values[random.usize(..values.len())]);
    while centers.len() < k {
        let squares: Vec<f64> = values
            .iter()
            .map(|v| nearest(&centers, *v).map_or(0.0, |n| (centers[n] - v).powi(2)))
            .collect();
        let mut left = random.f64() * squares.iter().sum::<f64>();
        let chosen = squares.iter().position(|s| {
            left -= s;
            *s > 0.0 && left <= 0.0
        });
        let Some(n) = chosen else { break };
        centers.push(values[n]);
    }
    centers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_clusters_are_found() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let values = [1.0, 1.1, 0.9, 50.0, 51.0, 900.0];
            let centers = cluster(&values, 3, &mut random);
            assert_eq!(centers.len(), 3);
            assert!((centers[0] - 1.0).abs() < 1e-9 && centers[1] == 50.5 && centers[2] == 900.0);
        }
    }

    /// 389 is as near to 338 as to 440, the means of either side.
    #[test]
    fn a_value_between_two_centers_is_the_lower_ones() {
        let values = [
            286.0, 310.0, 311.0, 312.0, 350.0, 356.0, 365.0, 369.0, 383.0, 389.0, 390.0, 438.0, 446.0, 465.0,
            474.0, 478.0,
        ];
        for seed in 0..200 {
            let centers = cluster(&values, 2, &mut fastrand::Rng::with_seed(seed));
            for (n, center) in centers.iter().enumerate() {
                let of: Vec<f64> = values
                    .iter()
                    .copied()
                    .filter(|v| nearest(&centers, *v) == Some(n))
                    .collect();
                let mean = of.iter().sum::<f64>() / of.len() as f64;
                assert!((mean - center).abs() < 1e-9, "{centers:?} {mean}");
            }
        }
    }

    #[test]
    fn equal_values_are_one_cluster() {
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(cluster(&[2.0; 9], 4, &mut random), [2.0]);
        assert!(cluster(&[], 4, &mut random).is_empty());
        assert_eq!(nearest(&[], 1.0), None);
    }
}
