// Small things that ranks tell each other outside of streams: numbers to agree on, texts, keys of libraries. A star:
// everything passes through rank 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::real {

// Calls of all ranks match in order. Errors are infeasible and name the rank that is at fault; after one the channel is
// of no use.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t ranks() const = 0;
  // Bytes of every rank in the order of ranks, on rank 0; empty elsewhere.
  virtual model::Result<std::vector<std::string>> gather(const std::string& bytes) = 0;
  // Rank 0's bytes on every rank.
  virtual model::Result<std::string> broadcast(const std::string& bytes) = 0;
  // Ends the job: calls of the other ranks fail with the reason from now on. Any thread may call it.
  virtual void abort(const std::string& reason) = 0;
  // Why the job has ended, if another rank has left or called abort(): for who waits for something else than this
  // channel. Never waits itself; any thread may call it.
  virtual std::optional<std::string> failure() const = 0;

  // Sums over all ranks, added in the order of ranks: the same bits everywhere. Every rank brings equally many.
  model::Result<std::vector<double>> sum(const std::vector<double>& values);
};

// Of a job of one rank.
std::unique_ptr<ControlChannel> lone_channel();

}  // namespace plumbline::real
