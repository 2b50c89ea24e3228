// Requests that start together, as those of benchmarks of fixed lengths.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/serving/detail/deployment.h"

namespace plumbline::sim {

Deployment::WavePasses Deployment::wave_passes(double batch) const {
  const PoolModel& model = *prefill_.model;
  const double of_rank = batch / decode_.ranks() / 2;  // that decode, in the mean of the passes
  const double prompts = std::max(1.0, batch / prefill_.ranks()), held = std::min(most_prompts(of_rank), prompts);
  const double passes = prompts * model.chunks() / held;
  const bool divided = mixes() && !model.costs().whole_prompts();  // so that all passes but the last are full
  return {divided ? passes : std::ceil(passes - batch_rounding),
          mixes() ? mixed_step(of_rank, held, 1) : model.prompt_pass_seconds(held)};
}

// All requests start together: their prompts fill passes, which the last of them waits for. Where passes have decode
// steps too, requests end and start again as many at a time as a pass holds. After the first wave a prompt waits for
// the step that begins as the last token of the request before it is out, and for those that the engine has launched by
// then (PassCosts::steps_ahead); of these the ones that follow the passes of other groups have prompts, which all but
// the first groups of a wave do. It waits for prompts before it only where a wave has more passes than a request has
// steps, those of its chunks included, the last of which gives the first token. Elsewhere they end together, and each
// wave is like the first. A pool for prefill that takes longer for a wave than its requests lets them wait. Of requests
// without number the first wave counts for nothing. Only in the first wave have all groups of attention data
// parallelism prompts together: after it each computes its own when it has a place for them, and the others wait for
// it, as in a steady state (NVIDIA/TensorRT-LLM docs/source/blogs/tech_blog/blog10_ADP_Balance_Strategy.md, the
// baseline: a rank may compute a prompt in an iteration in which the others only decode; waiting for each other's
// prompts, attention_dp_config.enable_balance, is off by default).
RequestTimes Deployment::wave_times(double batch) const {
  const PoolModel &model = *prefill_.model, &decode = *decode_.model;
  const double output = decode.request().output, step = decode.step_seconds(batch / decode_.ranks());
  const auto [passes, pass] = wave_passes(batch);
  const double steps = output / decode.tokens_per_step() + (mixes() ? model.chunks() - 1 : 0);
  const double together = (passes + model.chunks()) / 2 * pass, own = model.chunks() * pass;
  const double waves = requests_ ? std::max(1.0, *requests_ / batch) : std::numeric_limits<double>::infinity();
  const bool staggered = mixes() || disaggregated();
  // Others run while a prompt waits.
  const double groups = passes / model.chunks(), busy = mixes() ? std::clamp(groups - 1, 0.0, 1.0) : 0;
  const double waits = busy * (1 + model.costs().steps_ahead());
  const double apart_steps = mixes() ? std::max(0.0, steps + waits - passes) : steps;  // of a wave, without prompts
  const double missed = std::min(waits, apart_steps);  // of the first group's waits; the next misses its chunks' less
  const double with_prompts =
      std::max(0.0, waits - (missed + std::max(0.0, missed - model.chunks())) / std::max(1.0, groups));
  const double waited = with_prompts * pass + (waits - with_prompts) * step;
  const double queue = mixes() ? std::max(0.0, passes - steps - waits) * pass : 0;  // of prompts before its own
  const double decoding = apart_steps * step, apart = own + waited + queue;
  RequestTimes times;
  times.ttft =
      latency(pass, batch / decode_.ranks() / 2) + sent_ + (staggered ? apart + (together - apart) / waves : together);
  // The kernels that dispatch prompts may be slower than a decode step's, of which passes with both are made up.
  times.ttft = std::max(times.ttft, ttft_);
  if (disaggregated()) {
    times.tpot = step / decode.tokens_per_step();
    times.ttft = std::max(times.ttft, passes * pass - output * times.tpot);
  } else {
    times.tpot = std::max(0.0, passes * pass + decoding - (staggered ? apart : together)) / output;
    if (mixes() && decode.instance().attention_data > 1) {
      const double by_chance = steady_tpot(batch);
      times.tpot = by_chance + (times.tpot - by_chance) / waves;
    }
  }
  return times;
}

// A last wave that is not full takes its own time.
ServingState Deployment::wave(double concurrency) const {
  const double together = std::min(concurrency, requests_.value_or(concurrency));
  ServingState state{.concurrency = together};
  state.batch = std::min(together, most_batch_);
  const RequestTimes times = wave_times(state.batch);
  const WavePasses prefill = wave_passes(state.batch);
  state.fed = disaggregated() && prefill.count * prefill.seconds >= period(times) * (1 - batch_rounding);
  state.tpot = times.tpot;
  state.requests = state.batch / period(times);
  if (requests_) {
    const double full = std::floor(*requests_ / state.batch + batch_rounding), rest = *requests_ - full * state.batch;
    const double last = rest > batch_rounding * state.batch ? period(wave_times(rest)) : 0;
    state.requests = *requests_ / (full * period(times) + last);
  }
  state.prompts = std::min(prefill_.model->prompts_of_pass(), std::max(1.0, state.batch / prefill_.ranks()));
  state.ttft = times.ttft + (together / state.batch - 1) * period(times);
  return state;
}

}  // namespace plumbline::sim
