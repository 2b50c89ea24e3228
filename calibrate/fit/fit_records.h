// Records of one host or GPU, sorted by the constants that are fitted to them: those of `plumbline measure`, of
// nccl-tests, of traces, and of tables of one's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/cost/operator_class.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

struct FitRecord {  // one measurement with the values that fits use
  const Measurement* measurement = nullptr;
  model::OperatorKind kind = model::OperatorKind::add;
  model::OperatorClass type = model::OperatorClass::gemm;
  std::string format;  // of the first operand, by which the cost functions choose their constants
  std::string key;     // operator_key, or empty
  // On a host: the cores used. On a GPU: the SMs that a GEMM alone was launched on, the SMs that an all-to-all held,
  // and for all other and all overlapped operators the free SMs.
  std::int64_t cores = 1;
  double seconds = 0;        // of one execution
  double launches = 0;       // kernels of a GEMM, one behind the other; 0: as the cost functions count them
  double alone_seconds = 0;  // of an overlapped one: alone, in turns with it; 0: another record has it

  double extent(std::string_view name) const { return extent_of(*measurement, name); }
};

enum class MachineKind : std::uint8_t { host, gpu };

struct FitRecords {  // all records of one device, by the fit that uses them
  MachineKind machine = MachineKind::host;
  std::string device, clock, date;  // clock: of a host, else empty; date: the latest day, "2026-11-21"
  std::vector<FitRecord> gemms, attention, memory, routers;
  std::vector<FitRecord>
      small_gemms;  // forward GEMMs of few rows, as decoding has them: no form of training is fitted to them
  std::vector<FitRecord> divided;   // of a step, whose bytes are not known or whose format has no form: their times
                                    // count for themselves alone
  std::vector<FitRecord> together;  // expert all-to-alls and collectives of a plan, timed over all ranks of a group
  // Host: GEMMs and attention while other cores copied memory. GPU: all operators while an all-to-all ran.
  std::vector<FitRecord> overlapped;
  std::vector<FitRecord> together_overlapped;  // expert all-to-alls while operators ran
  std::vector<const Measurement*> launches, messages, all_to_alls, collectives;  // not operators of a plan
  // What launches cost the host of a GPU: calls for a kernel, calls for a graph, and from a call to the kernel's end.
  std::vector<const Measurement*> launch_calls, graph_calls, round_trips;
  bool holds_gaps = false;         // of a GPU: whether the times of kernels hold the gaps before them
  std::vector<std::string> notes;  // records that no constant uses
};

// Sorts the records of `clock` ("wall" or "cpu"; empty: the only clock there is, or a GPU's). Of a kernel that a GPU
// ran by itself the time counts with its operands in memory, where it was measured so. Input errors: no record, more
// than one device, more than one clock. The files must outlive what is returned.
model::Result<FitRecords> fit_records(const std::vector<Measurements>& files, const std::string& clock = "");

// The result of a fit to measurements: constants, and the errors of each family of records.
struct FittedFamily {  // the records that one form predicts
  std::string name;
  std::size_t records = 0;
  std::vector<double> errors;  // predicted / measured - 1 of each, in sample
  std::vector<double>
      left_out;                // errors of each record when fitted to the others; empty where too few records are left
  std::vector<double> before;  // errors with the constants of a profile that was refined; else empty
};

struct ProfileFit {
  std::vector<model::Parameter> parameters;  // fitted and measured constants, in the units of `base`
  std::vector<FittedFamily> families;
  std::size_t measured_operators = 0;  // how many of the parameters
  std::vector<std::string> notes;
};

}  // namespace plumbline::calibrate
