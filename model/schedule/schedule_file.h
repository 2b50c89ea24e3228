// A schedule of one's own: a CSV of the order of ops, as `plumbline schedule --csv` writes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "model/schedule/schedule.h"

namespace plumbline::model {

inline constexpr std::string_view schedule_file_prefix = "file:";  // of a kind that is such a file

// Reads the file. It exists for the ranks, micro-batches and chunks that it lists alone; its messages are eager. Input
// errors name file and line: another header, fields that an op does not have, rows out of order, a stage on another
// rank than its placement gives it, chunks that are missing or there twice. Ops that wait for each other are
// infeasible.
Result<std::shared_ptr<const ScheduleKind>> read_schedule_file(const std::string& path);

}  // namespace plumbline::model
