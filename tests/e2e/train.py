"""600 steps on text: the loss comes down at every level and recipe, by as much as in BF16, and fast enough."""
import common

t = common.Context(("--steps", "600"), ("--variants", "fp32,bf16,O1,O2,O3"))
steps = int(t.args.steps)
means, seconds = {}, {}
for variant in t.args.variants.split(","):
    level, _, recipe = variant.partition("/")
    plan = t.gpt_bytes("plan", "--level", level, *(["--recipe", recipe] if recipe else []))
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
if "fp32" in means and "bf16" in means:
    t.expect(abs(means["bf16"] / means["fp32"] - 1) < 0.005, "bf16 is within 0.5 % of fp32")
for variant, mean in means.items():
    if variant.startswith("O") and "bf16" in means:
        t.expect(abs(mean / means["bf16"] - 1) < 0.01, f"{variant}: {mean:.4f} is within 1 % of bf16's {means['bf16']:.4f}")
# Bounds for a quiet machine of two cores; a busy or slower one gets twice the time before the test says so.
if "fp32" in seconds:
    t.expect(seconds["fp32"] < 2 * 0.25, f"fp32: {seconds['fp32']:.3f} s a step")
    for variant in seconds:
        if variant.startswith("O"):
            t.expect(seconds[variant] < 2.5 * seconds["fp32"], f"{variant}: {seconds[variant]:.3f} s a step, against fp32's")
t.finish()
