// A predicted value with a published one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/result/result.h"
#include "sim/analysis/measured_step.h"

namespace plumbline::reports {

struct Comparison {  // one quantity, predicted and published
  std::string name;  // "step time"
  std::string unit;  // of both values; may be empty
  double predicted = 0;
  double published = 0;
  std::string source;  // publication that prints the value
  std::string note;    // what is known of the error; may be empty

  double error() const { return predicted / published - 1; }  // relative; requires published != 0
};

// Returns the figures of the cases whose plan has the name of `plan_file` (without folder and extension), in order;
// figures that the result does not have are left out.
std::vector<Comparison> comparisons(const std::vector<calibrate::ValidationCase>& cases, const std::string& plan_file,
                                    const model::StepResult& result);

// Sections of the report of a step.

// The interval of a prediction as sentences and tables.

// Returns "18.14 to 21.42 s", or "18.14 ms to 2.100 s": the unit once where both have the same.
std::string seconds_span(const model::Quantiles& quantiles);

// Returns "Measured steps took 1.07 times what is predicted (531 steps of 5 sets)."; "" where nothing is left.
std::string left_sentence(const model::PredictionInterval& interval);
// Returns "61.2 to 66.0 GB in eight of ten cases.", and how a plan fits whose range exceeds the GPU.
std::string memory_sentence(const model::StepResult& result);

// Returns the run's days, GPU-hours and cost as rows of a table; "" without them.
std::string run_interval_table(const model::PredictionInterval& interval);
// Returns where the uncertainty comes from and what would narrow it.
std::string parts_section(const model::PredictionInterval& interval);

// A measured step next to its prediction, as sentences and tables.

// Returns "Slower than 97 of 100 such runs: look for ...". Only an impossible step needs its lower bound.
std::string verdict_sentence(const model::MeasuredStep& measured, double bound_s);
// Returns the same of a measured peak of memory.
std::string memory_verdict(const model::MeasuredMemory& memory);

// Returns what was measured, where it lies, by which convention, and what may have made it longer or shorter. Requires
// result.measured, and the interval that it is held against.
std::string measured_section(const model::StepResult& result);
std::string measured_section(const sim::MeasuredDeployment& found);

// The cost of a whole run as text: phases, rented and owned price, energy, parts of the fabric.

// Returns paragraphs and tables below a heading, for 80 columns.
std::string run_report(const model::RunCost& run);

// Returns "from TDP, an upper estimate: 1,520 W a GPU with its share of host, network and building", or "from the
// step's power: ...", or why the energy is unknown.
std::string energy_source(const model::RunCost& run);

// Returns "2,048 NICs, 96 switches, 2,048 cables between switches, $11.2 M"; empty when a run needs no fabric.
std::string fabric_text(const model::FabricParts& parts, std::optional<double> usd);

// A step on every GPU of a cluster as sentences and tables.

// Returns the spread of the step over drawn fleets with the parts of the bubble, next to the published one where there
// is one, and what was drawn. The result must have a cluster.
std::string cluster_section(const model::StepResult& result, const std::vector<Comparison>& comparisons);

}  // namespace plumbline::reports
