// The end of a step on each rank, after its last slot and the last reduction of its gradients: checks, norm, update,
// gather. It is the same for every fidelity.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

struct UnitTiming {  // of a shard unit, seconds
  double reduce = 0, gather = 0;
  double copy = 0;   // of its reduced gradient to the host
  double local = 0;  // of `reduce`, in steps without sums over replicas
  WireLoad reduce_load, gather_load, local_load;
  model::RankGroup reducers, local_reducers, gatherers;  // ranks of the stage that take part
};

struct OptimizerTiming {  // per stage, seconds
  std::vector<UnitTiming> units;
  double check = 0;        // passes over the reduced gradient: unscaling, norm
  double agree = 0;        // agreement of all ranks on the gradient norm and on non-finite values; 0: none
  double update = 0;       // AdamW on this rank's shard
  double to_device = 0;    // of parameters that the host has updated
  double average = 0;      // copy of the parameters to the host for a moving average, overlapped with the step
  double host_update = 0;  // part of `update` on the host
  double step = 0;         // of the host once a step, while the GPU waits
  double joules = 0;       // of its kernels, where the profile has a power model
};

// The times, in seconds, when the gradients of one pipeline rank are ready.
struct GradientsReady {
  double end = 0;                   // of the last slot
  double reduced = 0;               // end of the last reduction; 0: none
  std::vector<double> on_host;      // ends of the reductions of copied units, ascending
  std::vector<double> host_copies;  // seconds of each unit's copy to the host
};

// Sorts the copies of a rank, given in any order as pairs of the reduction's end and the copy's seconds.
GradientsReady gradients_ready(double end, double reduced, std::vector<std::pair<double, double>> copies);

// Returns the stages that each pipeline rank holds.
std::vector<std::vector<std::int32_t>> stages_of(const model::Schedule& schedule);

struct RankWork {  // of all stages of a pipeline rank, s
  double check = 0, agree = 0, update = 0, to_device = 0, gather = 0, step = 0;
  double host_update = 0;  // part of `update`

  double kernels() const { return check + update - host_update; }
  RankWork slower(double factor) const;  // with so many times the seconds of kernels

  void add(const OptimizerTiming& stage, bool gathers);  // gathers: its units are gathered after the update
};

std::vector<RankWork> rank_works(const model::Schedule& schedule, const std::vector<OptimizerTiming>& stages,
                                 bool gathers);

// Receives every part with its rank, name, start and end in seconds.
using StepPart = std::function<void(std::int32_t rank, const std::string& name, double start, double end)>;

// Returns the end of the step in seconds. Where all ranks must agree, the update waits for all of them, because
// clipping needs the norm of the whole gradient. `part` may be empty.
double step_end(const std::vector<RankWork>& works, const std::vector<GradientsReady>& ranks, const StepPart& part);

// The seconds by which the step would end earlier without each part; the parts are removed in this order.
struct StepTail {
  double step = 0;    // of the host, once a step
  double gather = 0;  // of parameters after the update
  double host = 0;    // copies to and from the host, and its computation
  double agree = 0;   // of all ranks on the norm, and the wait for the last of them
  double reduce = 0;  // of gradients, after the last slot
  double total() const { return step + gather + host + agree + reduce; }
};
StepTail step_tail(std::vector<RankWork> works, std::vector<GradientsReady> ranks);

}  // namespace plumbline::sim
