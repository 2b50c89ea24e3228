#include "real/host/mpi/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace plumbline::real::host {
namespace {

constexpr int training_failed = 2;  // the command's exit code

// The header is sent before every packet's bytes with the same tag; MPI keeps the two in order.
struct Header {
  double time = 0;
  std::uint64_t bytes = 0;
};

// Limits of polling's sleep. The shortest is about the time of a wake-up; the longest is short against the computation
// that is awaited (assumed).
constexpr std::chrono::microseconds shortest_sleep{50}, longest_sleep{1000};

// After each such time a rank that waits reports for which other one.
constexpr std::chrono::seconds long_wait{60};

class Pause {
 public:
  void rest() {
    std::this_thread::sleep_for(length_);
    length_ = std::min(2 * length_, longest_sleep);
  }

 private:
  std::chrono::microseconds length_ = shortest_sleep;
};

// A packet that is being sent. Its memory must not move until both requests are complete.
struct Sending {
  Header header;
  std::vector<std::byte> bytes;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MpiWaiting waiting) : blocking_(waiting == MpiWaiting::blocking) {
    int* largest = nullptr;
    int there = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &there);
    // Without the attribute, the standard guarantees 32767.
    largest_tag_ = there != 0 ? *largest : 32767;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    if (!blocking_) progress_ = std::thread([this] { move_sends(); });
  }

  ~MpiTransport() override {
    if (blocking_) return;
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
    }
    posted_.notify_all();
    progress_.join();
  }

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }

  void send(std::int32_t to, Tag tag, Packet packet) override {
    const int number = mpi_tag(tag);
    const int count = mpi_count(packet.bytes.size());
    Header header{packet.time, packet.bytes.size()};
    if (blocking_) {
      MPI_Send(&header, sizeof header, MPI_BYTE, to, number, MPI_COMM_WORLD);
      if (count > 0) MPI_Send(packet.bytes.data(), count, MPI_BYTE, to, number, MPI_COMM_WORLD);
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      Sending& sending = sends_.emplace_back();
      sending.header = header;
      sending.bytes = std::move(packet.bytes);
      MPI_Isend(&sending.header, sizeof header, MPI_BYTE, to, number, MPI_COMM_WORLD, &sending.requests[0]);
      if (count > 0) MPI_Isend(sending.bytes.data(), count, MPI_BYTE, to, number, MPI_COMM_WORLD, &sending.requests[1]);
    }
    posted_.notify_all();
  }

  Packet receive(std::int32_t from, Tag tag) override {
    const int number = mpi_tag(tag);
    Header header;
    receive(from, number, &header, sizeof header);
    Packet packet;
    packet.time = header.time;
    packet.bytes.resize(header.bytes);
    if (header.bytes > 0) receive(from, number, packet.bytes.data(), mpi_count(header.bytes));
    return packet;
  }

  void abort(const std::string& reason) override {
    std::fprintf(stderr, "plumbline: rank %d: %s\n", rank_, reason.c_str());
    std::fflush(stdout);
    std::fflush(stderr);
    // A simulated MPI_Abort would end only this rank, and the job with success.
    if (blocking_) std::_Exit(training_failed);
    const std::scoped_lock lock(mutex_);
    MPI_Abort(MPI_COMM_WORLD, training_failed);
  }

 private:
  // Divides the tags of this MPI evenly over the channels.
  int mpi_tag(Tag tag) const {
    const std::int32_t numbers = std::min(tag_numbers, largest_tag_ / tag_channels);
    if (tag.number < 0 || tag.number >= numbers)
      throw RankFailure("this MPI allows tags below " + std::to_string(numbers) + ", not for " +
                        std::to_string(tag.number));
    return tag.channel * numbers + tag.number;
  }

  static int mpi_count(std::uint64_t bytes) {
    if (bytes > std::uint64_t{std::numeric_limits<int>::max()})
      throw RankFailure("a packet of " + std::to_string(bytes) + " bytes is too large for MPI");
    return static_cast<int>(bytes);
  }

  void receive(std::int32_t from, int tag, void* data, int bytes) {
    if (blocking_) {
      MPI_Recv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::scoped_lock lock(mutex_);
      MPI_Irecv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &request);
    }
    auto said = std::chrono::steady_clock::now();
    for (Pause pause; !done(request); pause.rest()) {
      const auto now = std::chrono::steady_clock::now();
      if (now - said < long_wait) continue;
      said = now;
      std::fprintf(stderr, "plumbline: rank %d still waits for rank %d: a long step, or it hangs\n", rank_, from);
    }
  }

  bool done(MPI_Request& request) {
    const std::scoped_lock lock(mutex_);
    int flag = 0;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

  // The body of the progress thread: MPI transfers large messages only during calls.
  void move_sends() {
    std::unique_lock lock(mutex_);
    while (true) {
      posted_.wait(lock, [this] { return closing_ || !sends_.empty(); });
      for (Pause pause; !sends_.empty();) {
        sends_.remove_if([](Sending& sending) {
          int flag = 0;
          MPI_Testall(2, sending.requests, &flag, MPI_STATUSES_IGNORE);
          return flag != 0;
        });
        lock.unlock();
        pause.rest();
        lock.lock();
      }
      if (closing_) return;
    }
  }

  const bool blocking_;
  int rank_ = 0, ranks_ = 0, largest_tag_ = 0;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::list<Sending> sends_;
  bool closing_ = false;
  std::thread progress_;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(MpiWaiting waiting) { return std::make_unique<MpiTransport>(waiting); }

MpiSession::MpiSession(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
  threads_ = provided >= MPI_THREAD_SERIALIZED;
}

MpiSession::~MpiSession() { MPI_Finalize(); }

std::int32_t MpiSession::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

std::int32_t MpiSession::ranks() const {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

double MpiSession::time() { return MPI_Wtime(); }

void MpiSession::compute([[maybe_unused]] double seconds) {
#ifdef SMPI_SAMPLE_DELAY
  smpi_execute(seconds);
#endif
}

}  // namespace plumbline::real::host
