// The words that the terminal report and the page share.
#pragma once

#include <string>
#include <string_view>

#include "model/plan/plan.h"
#include "model/result/result.h"

namespace plumbline::reports {

using model::model_name;

std::string_view describe(model::OpType type);                                   // "forward", "overlapped pair", ...
std::string hardware(const model::Plan& plan, const model::StepResult& result);  // "2,048 H800 (h800-...)"
std::string parallelism(const model::Plan& plan);       // "dualpipe, pipeline 16, expert 64, data 128, ZeRO-1, fp8"
std::string stage_list(const model::RankMemory& rank);  // "3, 12"

}  // namespace plumbline::reports
