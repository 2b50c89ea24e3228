#include "sim/predict/detail/lost_time.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "model/plan/layout.h"

namespace plumbline::sim {

namespace {

constexpr double clock_rounding = 1e-9;  // relative, of sums of picoseconds
constexpr double nothing = 1e-11;        // share of the step: sums of slots in another order

class List {
 public:
  explicit List(double step) : step_(step) {}
  void add(std::string cause, double seconds, std::string remedy) {
    if (std::abs(seconds) > nothing * step_) rows_.push_back({std::move(cause), seconds, std::move(remedy)});
  }
  std::vector<model::LostTime> take() {
    std::ranges::stable_sort(rows_, std::ranges::greater(), &model::LostTime::seconds);
    return std::move(rows_);
  }

 private:
  double step_;
  std::vector<model::LostTime> rows_;
};

// Subtracts `seconds` from the parts in order, none below zero.
void take_away(double seconds, std::initializer_list<double*> parts) {
  for (double* part : parts) {
    const double taken = std::min(*part, seconds);
    *part -= taken;
    seconds -= taken;
  }
}

// A negative difference of two runs means that kernels filled each other's gaps, so those gaps were smaller.
void add_kernels(const StepAccount& account, List& list) {
  KernelLoss loss = account.load.loss;
  double occupancy = account.undisturbed - account.load.at_best(Resource::compute) - loss.total();
  double overlapped = account.busy - account.undisturbed;
  for (double* difference : {&occupancy, &overlapped})
    if (std::abs(*difference) <= clock_rounding * account.busy) loss.gemm += std::exchange(*difference, 0);
  const double filled = std::max(0.0, -occupancy) + std::max(0.0, -overlapped);
  occupancy = std::max(0.0, occupancy);
  overlapped = std::max(0.0, overlapped);
  const double all = account.load.lost_to_sms + account.load.lost_to_slowdown;
  double slowdown = all > 0 ? overlapped * account.load.lost_to_slowdown / all : overlapped;
  occupancy += overlapped - slowdown;
  take_away(filled, {&occupancy, &loss.gemm, &loss.clock, &loss.gaps, &slowdown, &loss.memory_bound, &loss.ring,
                     &loss.copies, &loss.recomputation, &loss.host});
  list.add("GEMM below best rate", loss.gemm, "larger GEMMs (tiles, waves)");
  list.add("clock under the power limit", loss.clock, "a higher cluster.power_limit_w, or less power per FLOP");
  list.add("memory-bound below best rate", loss.memory_bound, "fused kernels");
  list.add("launch gaps", loss.gaps, "fewer kernels, or CUDA graphs");
  list.add("late keys and values", loss.ring, "fewer context-parallel ranks or faster links between them");
  list.add("host", loss.host, "fewer launches (fused or compiled kernels, CUDA graphs), larger micro-batches");
  list.add("copies of shards", loss.copies, "software that gathers and reduces in place");
  list.add("recomputation", loss.recomputation, "memory for what it saves");
  list.add("SMs given to communication", occupancy, "communication on fewer SMs");
  list.add("slowdown during transfers", slowdown, "transfers during no kernels");
}

std::string groups_of(const model::Plan& plan) {
  const auto groups = model::layer_groups(plan.parallelism);
  const auto divided = std::ranges::count_if(groups, [](const model::RankGroup& group) { return group.ranks > 1; });
  if (plan.parallelism.context == 1) return "tensor-parallel collectives";
  const bool tensor = divided > 1;
  return tensor ? "tensor- and context-parallel collectives" : "context-parallel collectives";
}

void add_waits(const StepAccount& account, const model::Plan& plan, List& list) {
  const double exposed = account.slots - account.busy;
  const double known = std::accumulate(account.exposure.begin(), account.exposure.end(), 0.0);
  const double gather = known > 0 ? std::min(account.gather_wait, exposed) : exposed;
  const auto part = [&](Waits kind) {
    return known > 0 ? account.exposure[static_cast<std::size_t>(kind)] / known * (exposed - gather) : 0;
  };
  list.add("exposed dispatch", part(Waits::dispatch), "overlapped pairs or a faster network");
  list.add("exposed combine", part(Waits::combine), "overlapped pairs or a faster network");
  list.add("slowest expert rank", part(Waits::stragglers), "balanced experts");
  list.add("exposed " + groups_of(plan), part(Waits::collective), "smaller groups, or overlap.tensor");
  list.add("exposed activation copies", part(Waits::host_copy), "less offload.activations, or a faster link");
  list.add("late parameters", gather, "gathers further ahead, or a lower zero_stage (FSDP is 3)");
}

void add_end(const StepAccount& account, List& list) {
  list.add("point-to-point", account.idle.point_to_point, "eager messages or a faster network");
  list.add("uneven stages", account.idle.uneven_stages, "an even split of layers");
  list.add("bubble", account.idle.fill_and_drain, "more micro-batches or a schedule with a smaller bubble");
  list.add("late gradient reduction", account.tail.reduce, "overlap.gradient_reduce or a faster network");
  list.add("agreement on the norm", account.tail.agree, "no clipping of the whole gradient");
  list.add("optimizer on the host", account.tail.host, "optimizer states on the GPU");
  list.add("host between steps", account.tail.step, "fewer values that the host reads back each step");
  list.add("late parameter gather", account.tail.gather, "overlap.parameter_gather");
}

bool works_in_slots(Resource resource) {
  switch (resource) {
    case Resource::data_parallel_nic:
    case Resource::data_parallel_nvlink:
    case Resource::message_nic:
    case Resource::message_nvlink:
    case Resource::optimizer_host:
      return false;
    default:
      return true;
  }
}

// The part of `left` seconds that a link's transfers do not take is time in which it does not send.
void add_link(const StepAccount& account, double left, List& list) {
  const auto part = [&left](double seconds) {
    const double found = std::clamp(seconds, 0.0, left);
    left -= found;
    return found;
  };
  const double taken = account.load.taken[static_cast<std::size_t>(account.resource)];
  list.add("transfers below best rate", part(taken - account.bound), "larger transfers, or more SMs for them");
  list.add("link idle during kernels", part(account.busy), "all kernels during transfers");
  list.add("link and kernels idle", left, "fewer barriers and waits between transfers");
}

}  // namespace

std::vector<model::LostTime> lost_times(const StepAccount& account, const model::Plan& plan) {
  List list(account.step());
  if (account.resource == Resource::compute) {
    add_kernels(account, list);
    add_waits(account, plan, list);
    list.add("optimizer below best rate", account.optimizer - account.optimizer_at_best, "fused kernels");
    add_end(account, list);
  } else if (works_in_slots(account.resource)) {
    add_link(account, account.slots - account.bound, list);
    list.add("optimizer", account.optimizer, "optimizer states on more ranks (zero_stage)");
    add_end(account, list);
  } else {
    add_link(account, account.step() - account.input - account.average - account.bound, list);
  }
  list.add("input", account.input, "input.prefetch or faster loaders");
  list.add("copy of the parameters", account.average, "no moving average on the host");
  return list.take();
}

}  // namespace plumbline::sim
