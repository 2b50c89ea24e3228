// One self-contained page about a step, for readers who do not use the command: plain sentences, charts, sources.
// Nothing is loaded from elsewhere and no script runs; it is light or dark as the reader's system asks.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "reports/text/step/comparison.h"

namespace plumbline::reports {

// Returns the page. With an empty timeline it has no pipeline picture, with empty comparisons no table of them. All
// text is escaped; equal inputs give equal bytes. Rank names are as for write_trace.
std::string to_html(const model::StepResult& result, const model::Plan& plan, const model::Timeline& timeline,
                    const std::vector<std::string>& rank_names, const std::vector<Comparison>& comparisons);

}  // namespace plumbline::reports
