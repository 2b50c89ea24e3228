// The steady state of a deployment: its pools, and what it does with a number of requests in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/serving/pool_model.h"

namespace plumbline::sim {

// What a number of requests in flight do; seconds, rates per second of the whole deployment.
struct ServingState {
  double concurrency = 0;
  double batch = 0;     // requests that decode
  double tpot = 0;      // of a request
  double requests = 0;  // that end per second
  bool full = false;    // as many are in flight as there is space for, or more
  bool fed = false;     // prefill starts fewer than could decode
};

// Without disaggregation both pools are the same.
class Deployment {
 public:
  struct Pool {
    std::shared_ptr<const PoolModel> model;
    std::int64_t instances = 1;

    std::int64_t gpus() const { return instances * model->instance().gpus(); }
    double ranks() const { return static_cast<double>(instances * model->instance().attention_data); }
  };

  Deployment(const model::Plan& plan, const model::ClusterShape& cluster, Pool prefill, Pool decode);

  const Pool& prefill() const { return prefill_; }
  const Pool& decode() const { return decode_; }
  bool disaggregated() const { return prefill_.model != decode_.model; }
  std::int64_t gpus() const { return decode_.gpus() + (disaggregated() ? prefill_.gpus() : 0); }

  // Returns the state with that many requests in flight; those for which there is no space wait.
  ServingState state(double concurrency) const;
  // Returns the largest number of requests in flight whose keys and values fit.
  double most_concurrency() const { return most_; }
  // Returns the largest number of them with at most that time per token; none where one request alone takes longer.
  std::optional<double> concurrency_within(double tpot) const;
  double ttft() const { return ttft_; }  // of a request that waits for nothing
  double worst_step(double batch) const;

  // Returns the seconds per token of `batch` requests, and of them those of the prefill of others.
  double tpot(double batch) const;
  double prefill_share(double batch) const;
  double launch_share(double batch) const;  // seconds per token in which steps with prompts wait for the host
  // Returns the requests whose prompts the pool for prefill can compute per second.
  double prefill_requests_per_s() const;

 private:
  double in_flight(double batch) const;
  double fed_batch(double batch) const;

  Pool prefill_, decode_;
  double computed_ = 1;  // tokens of a prompt
  bool chunked_ = true;
  double ttft_ = 0, most_ = 0, most_batch_ = 0;
};

}  // namespace plumbline::sim
