// Small messages between ranks outside of streams: numbers to agree on, texts, keys of libraries. The channel is a
// star: everything passes through rank 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::real {

// All ranks make the same calls in the same order. Errors are infeasible and name the rank at fault; the channel cannot
// be used after one.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t ranks() const = 0;
  // Messages between rank 0 and another one. They arrive in the order in which they were sent; receive() waits. Threads
  // may use different ranks at the same time, outside of the calls that all ranks make.
  virtual model::Result<void> send(std::int32_t rank, const std::string& bytes) = 0;
  virtual model::Result<std::string> receive(std::int32_t rank) = 0;
  // Ends the job: calls of the other ranks fail with the reason from now on. Any thread may call it.
  virtual void abort(const std::string& reason) = 0;
  // Returns why the job has ended, if another rank has left or called abort(); for callers that wait for something
  // other than this channel. It never blocks; any thread may call it.
  virtual std::optional<std::string> failure() const = 0;

  // Returns the bytes of every rank in the order of ranks, on rank 0; empty elsewhere.
  model::Result<std::vector<std::string>> gather(const std::string& bytes);
  // Returns rank 0's bytes on every rank.
  model::Result<std::string> broadcast(const std::string& bytes);
  // Returns sums over all ranks, added in rank order: the same bits everywhere. All ranks pass equally many values.
  model::Result<std::vector<double>> sum(const std::vector<double>& values);
};

// Returns the channel of a job with one rank.
std::unique_ptr<ControlChannel> lone_channel();

}  // namespace plumbline::real
