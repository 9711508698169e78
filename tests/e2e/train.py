"""600 steps on text: the loss comes down at every level and recipe, by as much as in BF16, and fast enough."""
import common

t = common.Context(("--steps", "600"), ("--variants", "fp32,bf16,O1,O2,O3"))
steps = int(t.args.steps)
means, seconds = {}, {}
for variant in t.args.variants.split(","):
    plan = t.gpt_bytes("plan", *common.variant(variant))
    rows = t.train(plan, "log", "--steps", steps, "--lr", "1e-3", "--warmup", 50, "--schedule", "cosine")
    loss = common.losses(rows)
    means[variant] = loss[-50:].mean()
    # The median: what else the machine does is not the step's.
    seconds[variant] = sorted(row["seconds"] for row in rows)[len(rows) // 2]
    print(f"{variant}: first {loss[0]:.4f}, mean of the last 50 {means[variant]:.4f}, {seconds[variant]:.3f} s a step, "
          f"{sum(row['skipped'] for row in rows)} skipped", flush=True)
    t.expect(len(rows) == steps, f"{variant}: {steps} lines of metrics")
    t.expect(abs(loss[0] - 5.545) < 0.15, f"{variant}: the first loss is that of a uniform guess, ln 256")
    t.expect(sum(row["skipped"] for row in rows) == 0, f"{variant}: no step was skipped")

if "fp32" in means:
    limit = 2.4 if steps >= 600 else 3.2
    t.expect(means["fp32"] < limit, f"fp32: {means['fp32']:.4f} is below {limit} nats")
# Rounding alone moves these figures: 600 steps end on a steep part of the curve, where a run that is a few steps ahead is a per
# cent better, and two FP32 runs that differ in eps alone end 0.5 % apart. Over 8 to 12 seeds, paired, bf16 ends 0.05 % below fp32
# in the mean (bound 0.5), and above bf16 (bound 1) end O1, O2, O3 by 0.15, 0.43, 0.37 % with delayed scales, by 0.33, 0.76, 0.36 %
# with current and by 0.66, 0.6, 0.81 % with row-wise ones; the standard deviation between single runs is 0.85 to 1.07 %. One
# run may so be three of those off.
noise = 3 * 0.0107
if "fp32" in means and "bf16" in means:
    t.expect(abs(means["bf16"] / means["fp32"] - 1) < 0.005 + noise,
             f"bf16: {means['bf16']:.4f} is fp32's {means['fp32']:.4f} within 0.5 % and the noise of a run")
for variant, mean in means.items():
    if variant.startswith("O") and "bf16" in means:
        t.expect(abs(mean / means["bf16"] - 1) < 0.01 + noise,
                 f"{variant}: {mean:.4f} is bf16's {means['bf16']:.4f} within 1 % and the noise of a run")
# Times are printed, not tested: what else the machine does is not the step's. On two quiet cores fp32 takes 0.08 s a step, O1-O3 0.09
# to 0.12 s (bounds: 0.25 s, and twice fp32).
t.finish()
