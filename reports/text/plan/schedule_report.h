// The output of `plumbline schedule`: one evaluated schedule, or all of them compared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/schedule/evaluate.h"

namespace plumbline::reports {

// Returns the table per rank, the picture for a terminal of `width` columns, and the makespan with its lower bound.
std::string schedule_text(const model::CostedSchedule& schedule, std::size_t width, bool color);
// Returns one row per op: rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb; fields that an op lacks are empty.
std::string schedule_csv(const model::Schedule& schedule);
std::string schedule_json(const model::CostedSchedule& schedule);
std::string schedule_svg(const model::CostedSchedule& schedule);
// Returns what the page of a schedule draws besides its JSON: {"ops": [[rank, op, start, end, micro-batches], ...]}.
std::string schedule_page_data(const model::CostedSchedule& schedule);

// Returns a row per schedule; `shape` and `costs` are those of the comparison.
std::string comparison_table(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                             const model::CostTable& costs);
std::string comparison_csv(const std::vector<model::ComparedSchedule>& schedules);
// Draws idle time and activations over the numbers of micro-batches of the rows, a line for each schedule.
std::string comparison_svg(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                           const model::CostTable& costs);
std::string comparison_json(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                            const model::CostTable& costs);

}  // namespace plumbline::reports
