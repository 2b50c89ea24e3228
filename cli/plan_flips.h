// What would overturn the choice of a plan and of a site.
#pragma once

#include <functional>

#include "cli/plan_answer.h"

namespace plumbline::cli {

// Fills answer.flips: the first site's best plan against the next ones there, and against the next sites. Needs a
// ranked answer with a site.
void find_flips(PlanAnswer& answer, unsigned threads, const std::function<bool()>& stopped);

}  // namespace plumbline::cli
