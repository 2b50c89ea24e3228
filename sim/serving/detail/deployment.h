// The steady state of a deployment: its pools, and what it does with a number of requests in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/serving/pool_model.h"

namespace plumbline::sim {

// What requests wait for, in the mean; seconds.
struct RequestTimes {
  double ttft = 0;  // until the first token, in a queue and in its own pass
  double tpot = 0;  // for each token after it
};

// What a number of requests in flight do; seconds, rates per second of the whole deployment.
struct ServingState {
  double concurrency = 0;
  double batch = 0;     // requests that decode
  double tpot = 0;      // of a request
  double ttft = 0;      // the same, with what it waits for space and for prompts before it
  double requests = 0;  // that end per second
  double prompts = 0;   // of a rank of the pool for prefill in a pass, or chunks of them, in the mean
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
  double most_concurrency() const { return in_flight(most_batch_); }
  // Returns whether there is no space for one more.
  bool full(const ServingState& state) const;
  // Returns the largest number of them with at most these times; none where one request alone takes longer.
  std::optional<double> concurrency_within(const RequestTimes& limits) const;
  double ttft_unloaded() const { return ttft_; }  // of a request that waits for nothing
  // Returns whether the process that sends tokens to clients takes longer for them than the engine.
  bool waits_for_sender(const ServingState& state) const;
  // Returns the longest step: with as much of prompts as a step or pass takes, and as other requests in flight have.
  double worst_step(const ServingState& state) const;

  // Returns the times of `batch` requests that decode; that per token holds the prefill of others on the same GPUs.
  RequestTimes times(double batch) const;
  // Returns the share of the decoding GPUs' time that decodes; without disaggregation prefill has the rest.
  double decode_share(const ServingState& state) const;

 private:
  static constexpr double batch_rounding = 1e-9;

  bool mixes() const;
  double most_prompts(double of_rank) const;  // of a rank in a pass, while so many of its requests decode
  // Return the seconds per token that the prefill of others takes, and in which steps with prompts wait for the host.
  double prefill_share(double batch) const;
  double launch_share(double batch) const;
  // Return the seconds per token of the engine, and of the process that sends the tokens to clients.
  double engine_tpot(double batch) const;
  double sender_tpot(double batch) const;
  double prefill_requests_per_s() const;  // that the pool for prefill can compute
  double steady_tpot(double batch) const;
  double steady_ttft(double batch, double tpot) const;
  double prompts_of_rank(double batch, double tpot) const;
  // Returns the seconds of a step that decodes `of_rank` requests and computes `prompts` prompts, or chunks, on a share
  // of the ranks; at least those of the host, which launches it kernel by kernel, and of its tokens' sending where they
  // do not queue behind the engine.
  double mixed_step(double of_rank, double prompts, double share) const;
  // Returns the seconds of the host for a step with prompts of a rank, of whose requests so many decode in it.
  double launched_seconds(double of_rank, double prompts) const;
  // Returns the seconds that prompts take in other stages after such a pass, in which so many requests decode.
  double latency(double pass, double per_rank) const;
  struct WavePasses {  // of the pool for prefill, which compute the prompts of a wave
    double count = 0, seconds = 0;
    double prompts = 1;  // of a rank that end in one
  };
  bool sends_behind() const;  // tokens of waves queue for the process that sends them
  // Returns the seconds of a decode step of a wave: of the engine alone where its tokens queue behind it.
  double wave_step(double of_rank) const;
  // While so many requests of a rank decode, in the mean of the passes.
  WavePasses wave_passes(double batch, double decoding) const;
  double steps_of_request() const;  // that compute its prompt and its tokens
  // Return the share of a wave's prompts that wait while others run, and the steps that each waits for before its own,
  // its text and the tokens of others taking so many seconds `outside` of the engine.
  double busy_share(const WavePasses& passes) const;
  double steps_waited(double batch, const WavePasses& passes, double outside) const;
  // Returns the times of a wave, whose requests start where those of the one before end, without what is outside.
  RequestTimes staggered_times(double batch, const WavePasses& wave, double waits) const;
  // Returns the times of clients whose tokens one process sends, by those that the engine alone would have.
  RequestTimes behind_sender(double batch, const WavePasses& passes, const RequestTimes& engine) const;
  RequestTimes wave_times(double batch) const;
  double later_tokens() const;  // of a request, after the one that its prompt's pass gives; at least one
  double wave_period(const RequestTimes& times) const;
  double in_flight(double batch) const;
  double fed_batch(double batch) const;
  ServingState wave(double concurrency) const;

  Pool prefill_, decode_;
  double computed_ = 1;  // tokens of a prompt
  bool chunked_ = true, waves_ = false;
  std::optional<double> requests_;  // of all waves
  double sent_ = 0;                 // seconds in which keys and values reach the pool that decodes
  double tokenized_ = 0;            // seconds until the scheduler has the tokens of a prompt's text
  double ttft_ = 0, most_batch_ = 0;
};

}  // namespace plumbline::sim
