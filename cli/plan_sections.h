// The parts of the answer's text; each begins with a heading. They need a ranked answer with a site.
#pragma once

#include <string>

#include "cli/plan_answer.h"
#include "reports/text/paragraph.h"

namespace plumbline::cli {

// Tables, and below them why each row loses to the one above.
std::string sites_table(const PlanAnswer& answer, reports::Style style);
std::string plans_table(const PlanAnswer& answer, reports::Style style);  // of the first site

std::string certainty_text(const PlanAnswer& answer, reports::Style style);  // of each site, by its profile
std::string prices_text(const PlanAnswer& answer, reports::Style style);
std::string search_text(const PlanAnswer& answer, reports::Style style);  // also of an answer without a site

}  // namespace plumbline::cli
