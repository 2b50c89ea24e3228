// The outputs of `plumbline schedule`, as pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::cli {

// "F=1,I=1,W=1,FB=3,p2p=0" in any order, each key optional: F, I and W default to 1, p2p to 0, B to I + W and FB
// to F + B. An unknown key or a value that is not a number >= 0 is an input error.
model::Result<model::ScheduleCosts> parse_costs(std::string_view text);

struct ScheduleOutput {
  model::Schedule schedule;
  model::ScheduleCosts costs;
  model::ScheduleEvaluation evaluation;  // under eager point-to-point
  std::optional<double> exact_makespan;
};

// One row per op: rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb; fields that an op lacks are empty.
std::string schedule_csv(const model::Schedule& schedule);
std::string schedule_json(const ScheduleOutput& output);
std::string schedule_table(const ScheduleOutput& output);

}  // namespace plumbline::cli
