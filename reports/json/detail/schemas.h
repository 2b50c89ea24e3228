// JSON Schemas of outputs, each next to what writes the output, and definitions that they share: {"NAME": schema, ...}.
#pragma once

#include <string>

namespace plumbline::reports {

std::string plan_schema();  // of the keys of a plan
std::string step_definitions();
std::string simulate_schema();
std::string run_schema();
std::string memory_schema();
std::string campaign_definitions();
std::string campaign_schema();
std::string plan_answer_schema();
std::string deployments_schema();
std::string rollout_plans_schema();
std::string serving_definitions();
std::string serving_schema();
std::string generation_schema();
std::string sweep_schema();
std::string tornado_schema();
std::string solve_schema();
std::string result_comparison_schema();
std::string trace_comparison_schema();
std::string chunk_comparison_schema();
std::string validation_schema();
std::string ledger_schema();
std::string schedule_definitions();
std::string schedule_schema();
std::string schedule_comparison_schema();
std::string routing_schema();

}  // namespace plumbline::reports
