// One self-contained page about a step, for people who were not there: plain sentences, charts, sources.
// Nothing is loaded from elsewhere and no script runs; light or dark as the reader's system asks.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "reports/text/step/comparison.h"

namespace plumbline::reports {

// An empty timeline leaves the pipeline picture out, empty comparisons their table. All text is escaped; equal
// inputs give equal bytes. Rank names as for write_trace.
std::string to_html(const model::StepResult& result, const model::Plan& plan, const model::Timeline& timeline,
                    const std::vector<std::string>& rank_names, const std::vector<Comparison>& comparisons);

}  // namespace plumbline::reports
