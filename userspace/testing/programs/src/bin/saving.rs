// SPDX-License-Identifier: GPL-2.0-or-later
//! What is saved, with its interval, as `dsmctl trial report` has it, as JSON: `saving RATIO...`,
//! of a measurement with something on by one with it off, for each pair.

use anyhow::{ensure, Context, Result};
use dsmctl::trial::estimate::Saving;

fn main() -> Result<()> {
    let ratio = |a: String| {
        a.parse::<f64>()
            .with_context(|| format!("{a}: a ratio is needed"))
    };
    let ratios: Vec<f64> = std::env::args().skip(1).map(ratio).collect::<Result<_>>()?;
    ensure!(
        ratios.iter().all(|r| r.is_finite() && *r > 0.0),
        "ratios are greater than 0"
    );
    println!("{}", serde_json::to_string(&Saving::of(&ratios))?);
    Ok(())
}
