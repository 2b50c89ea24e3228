// The keys of a plan as text, and as the reference page docs/keys.md.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan_key_table.h"

namespace plumbline::reports {

// Returns a table of keys by section; of a single key everything there is about it with examples of its use.
std::string keys_text(const std::vector<model::PlanKey>& keys);

// Returns them as CSV, a line each.
std::string keys_csv(const std::vector<model::PlanKey>& keys);

// Returns a page of Markdown with a table for each section.
std::string keys_markdown(const std::vector<model::PlanKey>& keys);

}  // namespace plumbline::reports
