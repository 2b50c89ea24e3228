// A finished sweep with what it shows, and its output forms.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep_grid.h"
#include "model/plan/plan.h"
#include "sim/whatif/sweep.h"
#include "sim/whatif/sweep_findings.h"

namespace plumbline::cli {

struct SweepLimits {
  double plateau = 0.01;  // a point belongs to the plateau when it is at most this much slower than the best
  double hidden = 0.02;   // communication is hidden where at most this share of the overlapped pairs waits for it
};

// Points that differ in the numeric key alone, by rising value. Stretches are positions in `points`.
struct SweepLine {
  std::vector<std::size_t> points;
  std::optional<std::size_t> best;   // position; nothing when no point is feasible
  sim::Stretch plateau;              // around the best
  std::size_t known = 0;             // points whose exposed communication is known
  std::vector<sim::Stretch> hidden;  // where communication is hidden
  bool hidden_everywhere() const;
};

struct SweepResult {
  SweepGrid grid;
  sim::Fidelity fidelity;
  SweepLimits limits;
  std::vector<model::Result<sim::SweepPoint>> points;
  std::vector<std::optional<double>> product_slowdowns;  // per point
  std::vector<SweepLine> lines;
  std::optional<std::size_t> best;  // the feasible point with the most tokens/s; nothing when there is none
  model::Plan plan;                 // of the best point, else of the first
  bool same_tokens = true;          // a step of every point trains on as many tokens
};

// Everything but `plan`.
SweepResult sweep_result(SweepGrid grid, sim::Fidelity fidelity, const SweepLimits& limits,
                         std::vector<model::Result<sim::SweepPoint>> points);

bool feasible(const model::Result<sim::SweepPoint>& point);
// Why a point is not feasible: a sentence without full stop; "" when it is.
std::string obstacle(const model::Result<sim::SweepPoint>& point);
// sim::exposed_share of a point that was simulated.
std::optional<double> exposed_share(const model::Result<sim::SweepPoint>& point);

// The model's name, without those of its keys that are swept.
std::string model_title(const SweepResult& result);

std::string sweep_text(const SweepResult& result, bool colour);  // table and sentences
std::string sweep_csv(const SweepResult& result);                // a row per point
std::string sweep_json(const SweepResult& result);
std::string sweep_svg(const SweepResult& result);  // needs a numeric axis

}  // namespace plumbline::cli
