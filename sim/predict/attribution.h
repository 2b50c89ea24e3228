// The busy seconds of a slot template by operator class and by constant of the profile.
#pragma once

#include <map>
#include <string>

#include "model/program/program.h"
#include "sim/step/segment_time.h"
#include "sim/step/slot_host.h"

namespace plumbline::sim {

struct Attribution {
  std::map<std::string, double> classes;         // breakdown row -> seconds of compute
  std::map<std::int32_t, double> constants;      // profile constant -> seconds of compute
  std::map<std::int32_t, double> communication;  // profile constant -> seconds of transfer
};

// `clock` is that of the slot (sim/step/slot_power.h), `host` what the host adds to it.
Attribution attribute(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                      double clock, const SlotHost& host);

}  // namespace plumbline::sim
