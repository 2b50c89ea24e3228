// Where time goes: busy seconds by operator class and by profile constant, per slot template.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/program/program.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct Attribution {
  std::map<std::string, double> classes;         // breakdown row -> seconds of compute
  std::map<std::int32_t, double> constants;      // profile constant -> seconds of compute
  std::map<std::int32_t, double> communication;  // profile constant -> seconds of transfer
};

Attribution attribute(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs);

}  // namespace plumbline::sim
