#include "cli/run_monitor.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

namespace plumbline::cli {

namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

model::Result<void> RunMonitor::open(const std::string& folder) {
  if (folder.empty()) return {};
  auto board = reports::TensorBoard::create(folder, seconds_since_1970());
  if (!board) return tl::unexpected(board.error());
  board_ = std::move(*board);
  return {};
}

void RunMonitor::step(const real::StepFigures& figures) {
  show(figures);
  if (!board_ || failed_) return;
  std::vector<reports::BoardScalar> scalars = {
      {"loss", figures.loss},
      {"gradient_norm", figures.gradient_norm},
      {"tokens_per_second", figures.tokens_per_second},
      {"time/step_s", figures.seconds},
      {"loss_scale", figures.loss_scale},
      {"utilisation", figures.tokens_per_second * flops_per_token_ / peak_flops_}};
  std::vector<reports::BoardHistogram> histograms;
  for (const real::LayerLoad& load : figures.loads) {
    scalars.push_back({fmt::format("expert_load/layer_{}_max_violation", load.layer), load.max_violation});
    histograms.push_back({fmt::format("expert_load/layer_{}", load.layer), load.rows});
  }
  if (auto written = board_->write(figures.step, seconds_since_1970(), scalars, histograms); !written)
    failed_ = written.error();
}

// Not more than a line each half second, but the last step's.
void RunMonitor::show(const real::StepFigures& figures) {
  const double now = seconds_since_1970();
  constexpr double pause = 0.5;
  if (figures.step < steps_ && now - shown_ < pause) return;
  shown_ = now;
  fmt::print(stderr, "step {:>{}}/{}  loss {:.4f}  gradient norm {:.3f}  {:.1f} ms  {:.0f} tokens/s{}\n", figures.step,
             fmt::formatted_size("{}", steps_), steps_, figures.loss, figures.gradient_norm, 1e3 * figures.seconds,
             figures.tokens_per_second, figures.skipped ? "  skipped: gradients overflowed" : "");
}

}  // namespace plumbline::cli
