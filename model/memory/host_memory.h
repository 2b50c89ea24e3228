// Computes what the ranks hold in the memory of their hosts: offloaded optimizer states and activations, and a moving
// average of the parameters.
#pragma once

#include <vector>

#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"

namespace plumbline::model {

// Returns for each pipeline rank the most bytes of activations that wait on its host at once: what F of a micro-batch
// sends there waits for its backward, or for its W where the backward is split.
std::vector<double> waiting_on_host(const Plan& plan, const StepProgram& program);

// Returns the bytes of the host whose GPUs hold most, from those of each pipeline rank. All GPUs of a pipeline rank
// hold the same; they are consecutive, as are those of a host. A placement changes which ranks share a host, which is
// not looked at.
double fullest_host(const Plan& plan, const Device& device, const std::vector<double>& ranks);

// Returns how probable it is that a host of this capacity holds the bytes; 1 where the capacity is not known (0).
// Frameworks hold as much as the tensors and up to half more: pinned blocks are rounded up, and there are buffers of
// copies. DeepSpeed's own estimate takes the half (additional_buffer_factor of estimate_zero2_model_states_mem_needs,
// deepspeed/runtime/zero/stage_1_and_2.py).
double fits_on_host(double bytes, double capacity);

}  // namespace plumbline::model
