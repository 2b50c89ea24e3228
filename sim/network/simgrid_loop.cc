// This is the project's only file outside of tests that includes SimGrid's headers.
#include "sim/network/simgrid_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <csignal>
#include <cstring>
#include <deque>
#include <future>
#include <optional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <utility>

#include "sim/engine/event_heap.h"
#include "sim/engine/flows.h"

namespace plumbline::sim {
namespace {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;
using model::ErrorKind;
using simgrid::kernel::timer::Timer;
using topologies::Link;

// SimGrid counts whole bytes, but a fast link moves a fraction of a byte per picosecond. The unit is therefore 2^-20 B.
constexpr double units_per_byte = 1 << 20;
constexpr double most_rate = 1e15;  // B/s: above every link and every limit
// SimGrid ends activities together that end within its precision, which must be coarser than the steps of its clock.
constexpr double finest_precision = 0x1p-43;  // s, 0.11 ps: two steps of a clock below 512 s
constexpr double reserve = 100;               // s that the clock may advance before the precision is checked again
// Flows are shortened by what they move in this time at their rate alone. An end that falls on a whole picosecond then
// reaches the event heap before the events of that picosecond, whatever the rounding of SimGrid's doubles.
constexpr double least_margin = 0.125e-12;  // s
constexpr double least_factor = 1e-6;       // of a link that has not failed
// Bytes. A frame of SimGrid 3.32 has 96; measured: 524,288 links, of which each two share a flow, take 40 to 52 MiB.
constexpr std::size_t stack_per_link = 128;
constexpr std::size_t stack_of_work = 8 << 20;  // bytes, of what runs around the solver
constexpr std::size_t most_stack = 1 << 30;     // bytes: eight million links, those of a million GPUs

double clock_seconds() { return s4u::Engine::get_clock(); }

// Returns the precision in seconds for a clock that runs up to `horizon` seconds.
double clock_precision(double horizon) {
  return std::max(finest_precision, 2 * (std::nextafter(horizon, unlimited) - horizon));
}

// Receives communications that SimGrid has completed; the call comes from inside SimGrid's own work.
class EndListener {
 public:
  virtual void completed(const s4u::Activity& activity) = 0;

 protected:
  ~EndListener() = default;
};

// A link, and what routes name it by, which SimGrid finds by a cast.
struct RoutedLink {
  explicit RoutedLink(s4u::Link* made) : link(made), in_routes(made->get_impl()) {}
  s4u::Link* link;
  simgrid::kernel::resource::StandardLinkImpl* in_routes;
};

// A zone of two hosts. The route between them is the footprint of the flow that is about to start.
class FootprintZone final : public routing::NetZoneImpl {
 public:
  explicit FootprintZone(const std::string& name) : NetZoneImpl(name) {}
  void get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into, double*) override {
    into->link_list_ = links_;
  }
  void clear() { links_.clear(); }
  void append(const RoutedLink& link, std::uint32_t times) { links_.insert(links_.end(), times, link.in_routes); }

 private:
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links_;
};

// SimGrid replaces signal handlers when it starts; this class restores the program's own.
class KeepSignals {
 public:
  KeepSignals() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &before_[i]);
  }
  ~KeepSignals() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  }
  KeepSignals(const KeepSignals&) = delete;
  KeepSignals& operator=(const KeepSignals&) = delete;

 private:
  static constexpr std::array signals = {SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, signals.size()> before_{};
};

// CM02 without cross traffic: max-min fair sharing of whole bandwidths. The model may be set only once per process.
std::unique_ptr<s4u::Engine> make_engine() {
  static bool configured = false;
  std::vector<std::string> words = {"plumbline", "--log=root.thres:error"};
  if (!configured)
    words.insert(words.end(), {"--cfg=network/model:CM02", "--cfg=network/crosstraffic:0", "--cfg=network/optim:Lazy"});
  configured = true;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  auto count = static_cast<int>(arguments.size());
  const KeepSignals signals;
  return std::make_unique<s4u::Engine>(&count, arguments.data());
}

// Returns the bytes of the calling thread's stack.
std::size_t stack_size() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

std::optional<model::Error> find_link_fault(const std::vector<Link>& links) {
  for (const Link& link : links) {
    if (link.bandwidth > 0 && link.bandwidth <= most_rate) continue;
    return model::Error{ErrorKind::input, fmt::format("link {} has a bandwidth of {} B/s", link.name, link.bandwidth)};
  }
  const std::size_t needed = stack_per_link * links.size(), bytes = stack_size();
  if (bytes < needed)
    return model::Error{ErrorKind::infeasible,
                        fmt::format("{} links need a stack of {} KiB for SimGrid's solver, the thread has {} KiB",
                                    links.size(), needed / 1024, bytes / 1024),
                        "",
                        0,
                        "",
                        "run it by on_own_stack()"};
  return std::nullopt;
}

}  // namespace

class SimGridNetwork::Impl {
 public:
  Impl(const std::vector<Link>& links, std::size_t limited_flows)
      : links_(links), engine_(make_engine()), zone_(new FootprintZone("cluster")) {  // the engine owns it
    source_ = zone_->create_host("source", {1.0})->seal();
    target_ = zone_->create_host("target", {1.0})->seal();
    const auto add = [&](std::deque<RoutedLink>& to, const std::string& name, double bandwidth) {
      to.emplace_back(zone_->create_link(name, {bandwidth * units_per_byte})->seal());
    };
    for (std::size_t i = 0; i < links.size(); ++i) add(shared_, std::to_string(i), links[i].bandwidth);
    for (std::size_t i = 0; i < limited_flows; ++i) add(limiters_, fmt::format("limit{}", i), most_rate);
    for (RoutedLink& limiter : limiters_) free_limiters_.push_back(&limiter);
    zone_->seal();
    factors_.assign(links.size(), 1.0);
    static const bool registered = register_completion();
    (void)registered;
    engine_owner = this;
  }
  ~Impl() { engine_owner = nullptr; }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Returns the network that holds this process's SimGrid engine, or nullptr.
  static const Impl* owner() { return engine_owner; }

  // Starts a communication with `record` as its data. SimGrid limits a flow for its whole life by the bandwidths at its
  // start, so it starts on links of full bandwidth with an open limiter.
  s4u::CommPtr start(void* record, const Footprint* footprint, double bytes, const RoutedLink* limiter) {
    zone_->clear();
    if (limiter != nullptr) zone_->append(*limiter, 1);
    if (footprint != nullptr) {
      for (const Crossing& crossing : *footprint) {
        if (degraded_ > 0) set_bandwidth(crossing.link, 1);
        zone_->append(shared_[crossing.link], crossing.times);
      }
    }
    s4u::CommPtr comm = s4u::Comm::sendto_init(source_, target_);
    comm->set_data(record);
    comm->set_payload_size(static_cast<std::uint64_t>(bytes * units_per_byte));
    comm->start();
    if (degraded_ > 0 && footprint != nullptr)
      for (const Crossing& crossing : *footprint) set_bandwidth(crossing.link, factors_[crossing.link]);
    return comm;
  }

  void set_factor(LinkId link, double factor) {
    double& current = factors_[link];
    degraded_ = degraded_ - (current < 1 ? 1 : 0) + (factor < 1 ? 1 : 0);
    if (factor == 0 && current > 0) shared_[link].link->turn_off();
    if (factor > 0 && current == 0) shared_[link].link->turn_on();
    current = factor;
    set_bandwidth(link, factor);
  }
  void make_whole() {
    for (LinkId link = 0; link < factors_.size() && degraded_ > 0; ++link)
      if (factors_[link] < 1) set_factor(link, 1);
  }

  const RoutedLink* take_limiter() {
    if (free_limiters_.empty()) return nullptr;
    const RoutedLink* limiter = free_limiters_.back();
    free_limiters_.pop_back();
    return limiter;
  }
  void give_back(const RoutedLink* limiter) {
    set_limit(*limiter, most_rate);
    free_limiters_.push_back(limiter);
  }
  static void set_limit(const RoutedLink& limiter, double rate) {
    limiter.link->set_bandwidth(std::min(rate, most_rate) * units_per_byte);
  }

  const std::vector<Link>& links() const { return links_; }
  double factor(LinkId link) const { return factors_[link]; }
  void run() { engine_->run(); }
  void attach(EndListener* loop) {
    assert((loop == nullptr || loop_ == nullptr) && "one loop at a time");
    loop_ = loop;
  }

 private:
  // SimGrid has one completion signal per process, which cannot be disconnected.
  static bool register_completion();

  // A link that is off keeps its last bandwidth, because SimGrid accepts no 0.
  void set_bandwidth(LinkId link, double factor) {
    const double bandwidth = links_[link].bandwidth * units_per_byte * factor;
    s4u::Link& own = *shared_[link].link;
    if (bandwidth > 0 && own.get_bandwidth() != bandwidth) own.set_bandwidth(bandwidth);
  }

  static Impl* engine_owner;
  const std::vector<Link>& links_;
  std::unique_ptr<s4u::Engine> engine_;
  FootprintZone* zone_;
  s4u::Host* source_ = nullptr;
  s4u::Host* target_ = nullptr;
  std::deque<RoutedLink> shared_;    // by LinkId
  std::deque<RoutedLink> limiters_;  // private links that enforce rate limits
  std::vector<const RoutedLink*> free_limiters_;
  std::vector<double> factors_;  // by LinkId
  std::size_t degraded_ = 0;     // links whose factor is below 1
  EndListener* loop_ = nullptr;
};

SimGridNetwork::Impl* SimGridNetwork::Impl::engine_owner = nullptr;

class SimGridLoop::Impl final : private Handler, private EndListener {
 public:
  explicit Impl(SimGridNetwork::Impl& network)
      : network_(network), clock_before_(clock_seconds()), users_(network.links().size()) {
    keep_precision(0);
    network_.attach(this);
  }
  ~Impl() {
    abandoned_ = true;
    if (timer_ != nullptr) timer_->remove();
    std::vector<s4u::CommPtr> comms;
    flows_.for_each([&](Running& running) {
      if (running.comm != nullptr) comms.push_back(running.comm);
    });
    for (const s4u::CommPtr& comm : comms) comm->cancel();
    network_.run();
    release();
    network_.make_whole();
    network_.attach(nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Time now() const { return now_; }
  const std::vector<FlowFailure>& failures() const { return failures_; }

  void at(Time time, const Task& task) {
    assert(time >= now_ && "an event in the past");
    events_.push({time, events_.next_order(task.priority), task});
  }

  FlowId flow(const Flow& flow, const Task& done) {
    const FlowId id = flows_.add({});
    Running& running = *flows_.find(id);
    running.id = id;
    running.done = done;
    running.failed = flow.failed;
    running.order = events_.next_order(done.priority);
    running.footprint = flow.footprint;
    running.rate_limit = flow.rate_limit;
    std::string fault = find_fault(flow, network_.links());
    if (fault.empty()) fault = failed_link(flow.footprint);
    if (!fault.empty()) {
      fail(running, std::move(fault));
      return id;
    }
    // A flow shorter than the margin ends now.
    const double rate = rate_alone(flow, network_.links());
    keep_precision(2 * flow.bytes / rate);
    const double margin = std::max(precision_, least_margin) * rate;
    if (flow.bytes <= margin) {
      events_.push({now_, running.order, done});
      flows_.remove(id);
      return id;
    }
    running.bytes_left = flow.bytes - margin;
    running.since = now_;
    if (meets_others(running)) {
      for (const Crossing& crossing : *flow.footprint) put_user_on_network(crossing.link);
      put_on_network(running);
      return id;
    }
    if (flow.footprint != nullptr)
      for (const Crossing& crossing : *flow.footprint) users_[crossing.link].alone = &running;
    Flow on_links = flow;
    on_links.rate_limit = unlimited;
    running.link_rate = rate_alone(on_links, network_.links());
    set_rate(running, rate);
    return id;
  }

  void set_rate_limit(FlowId flow, double rate_limit) {
    assert(rate_limit > 0);
    Running* running = flows_.find(flow);
    if (running == nullptr) return;
    assert(running->rate_limit < unlimited && "the flow was started without a rate limit");
    running->rate_limit = rate_limit;
    if (running->comm == nullptr) return set_rate(*running, std::min(running->link_rate, rate_limit));
    network_.set_limit(*running->limiter, rate_limit);
  }

  model::Result<void> change(const LinkChange& change) {
    if (change.link >= network_.links().size())
      return model::wrong_input("", fmt::format("there is no link {}", change.link));
    if (change.factor != 0 && !(change.factor >= least_factor && change.factor <= 1))
      return model::wrong_input("",
                                fmt::format("a link's factor is 0, or {} to 1, not {}", least_factor, change.factor));
    if (!(change.time >= to_seconds(now_) && change.time < 1e6))
      return model::wrong_input("", fmt::format("a link cannot change at {} s", change.time));
    changes_.push_back(change);
    at(to_time(change.time), {this, 0, 0, changes_.size() - 1});
    return {};
  }

  std::uint64_t run() {
    const std::uint64_t before = count_;
    run_events();
    if (on_network_ > 0) network_.run();
    assert(events_.empty() && flows_.live() == 0);
    return count_ - before;
  }

 private:
  struct Running {
    FlowId id{};
    s4u::CommPtr comm;
    Task done, failed;
    std::uint64_t order = 0;
    const Footprint* footprint = nullptr;
    double rate_limit = unlimited;
    const RoutedLink* limiter = nullptr;
    // Of a flow that is alone on its links.
    double link_rate = 0, rate = 0, bytes_left = 0;  // B/s that the links allow, and now; at `since`
    Time since = 0, end = 0;                         // of the last change of rate; of the flow at its present rate
    std::uint32_t changes = 0;                       // ends that were scheduled before the last one are void
  };
  struct Users {  // of a link
    std::uint32_t on_network = 0;
    Running* alone = nullptr;
  };

  Time end_time() const { return now_before_ + std::llround(std::ceil((clock_seconds() - clock_before_) * 1e12)); }

  // Returns whether a link of the flow has another one, or less than its bandwidth.
  bool meets_others(const Running& running) const {
    return running.footprint != nullptr && std::ranges::any_of(*running.footprint, [&](const Crossing& crossing) {
             const Users& users = users_[crossing.link];
             return users.on_network > 0 || users.alone != nullptr || network_.factor(crossing.link) < 1;
           });
  }

  void set_rate(Running& running, double rate) {
    running.bytes_left = left_of(running);
    running.since = now_;
    running.rate = rate;
    running.end = now_ + std::llround(std::ceil(running.bytes_left / rate * 1e12));
    const Task end = {this, ++running.changes, running.done.priority, static_cast<std::uint64_t>(running.id)};
    events_.push({running.end, running.order, end});
  }
  double left_of(const Running& running) const {
    return std::max(0.0, running.bytes_left - running.rate * to_seconds(now_ - running.since));
  }
  void leave_links(const Running& running) {
    if (running.footprint == nullptr) return;
    for (const Crossing& crossing : *running.footprint)
      if (users_[crossing.link].alone == &running) users_[crossing.link].alone = nullptr;
  }

  // What is at its end within the present picosecond stays alone.
  void put_user_on_network(LinkId link) {
    Running* running = users_[link].alone;
    if (running == nullptr || running->end <= now_) return;
    leave_links(*running);
    running->bytes_left = left_of(*running);
    put_on_network(*running);
  }

  // SimGrid's clock stands still while it has no flows.
  void put_on_network(Running& running) {
    if (running.rate_limit < unlimited && (running.limiter = network_.take_limiter()) == nullptr)
      return fail(running, "too many flows with a rate limit");
    if (on_network_++ == 0) {
      now_before_ = now_;
      clock_before_ = clock_seconds();
    }
    for (const Crossing& crossing : *running.footprint) ++users_[crossing.link].on_network;
    running.comm = network_.start(&running, running.footprint, running.bytes_left, running.limiter);
    if (running.limiter != nullptr) network_.set_limit(*running.limiter, running.rate_limit);
  }

  // Coarsens the precision where needed: SimGrid would lose events if the steps of its clock, within so many seconds,
  // were coarser than its precision.
  void keep_precision(double seconds) {
    const double needed = clock_precision(clock_seconds() + seconds + reserve);
    if (needed > precision_) s4u::Engine::set_config("surf/precision", needed);
    precision_ = std::max(precision_, needed);
  }

  // Returns the reason, or "" when no link of the footprint has failed.
  std::string failed_link(const Footprint* footprint) const {
    if (footprint == nullptr) return "";
    for (const Crossing& crossing : *footprint) {
      if (network_.factor(crossing.link) > 0) continue;
      return fmt::format("link {} failed", network_.links()[crossing.link].name);
    }
    return "";
  }

  void fail(const Running& running, std::string reason) {
    failures_.push_back({running.id, now_, std::move(reason)});
    const Task failed = running.failed;
    flows_.remove(running.id);
    if (failed.handler != nullptr) at(now_, failed);
  }

  // Records the end; everything else happens in the next run_events().
  void completed(const s4u::Activity& activity) override {
    auto* running = activity.get_data<Running>();
    if (running->comm.get() != &activity) return;  // a cancelled communication is reported twice
    parked_.push_back(std::move(running->comm));
    --on_network_;
    for (const Crossing& crossing : *running->footprint) --users_[crossing.link].on_network;
    if (running->limiter != nullptr) spent_limiters_.push_back(running->limiter);
    if (abandoned_) return flows_.remove(running->id);
    if (activity.get_state() == s4u::Activity::State::FINISHED) {
      events_.push({std::max(now_, end_time()), running->order, running->done});
      flows_.remove(running->id);
    } else {
      const std::string reason = failed_link(running->footprint);
      fail(*running, reason.empty() ? "a link failed and was repaired at once" : reason);
    }
    arm();
  }

  // A flow that is alone fails with its link. SimGrid would report one that starts on such a link too late.
  void apply(const LinkChange& change) {
    Running* alone = users_[change.link].alone;
    if (change.factor > 0) put_user_on_network(change.link);
    network_.set_factor(change.link, change.factor);
    if (change.factor > 0 || alone == nullptr || alone->end <= now_) return;
    leave_links(*alone);
    fail(*alone, failed_link(alone->footprint));
  }

  // Applies a link change (code 0), or ends a flow that is alone unless its rate has changed since.
  void handle(std::uint32_t code, std::uint64_t argument) override {
    if (code == 0) return apply(changes_[argument]);
    Running* running = flows_.find(FlowId{argument});
    if (running == nullptr || running->comm != nullptr || running->changes != code) {
      --count_;
      return;
    }
    const Task done = running->done;
    leave_links(*running);
    flows_.remove(running->id);
    done.handler->handle(done.code, done.argument);
  }

  // Sets one SimGrid timer, for the first event of the heap, which orders events of the same time.
  void arm() {
    if (events_.empty() || (timer_ != nullptr && armed_ <= events_.first_time())) return;
    if (timer_ != nullptr) timer_->remove();
    armed_ = events_.first_time();
    timer_ = Timer::set(std::max(clock_seconds(), clock_before_ + to_seconds(armed_ - now_before_)), [this] {
      timer_ = nullptr;
      run_events();
    });
  }

  // Runs the events of the timer's time and, while SimGrid has no flows, all that follow.
  void run_events() {
    release();
    keep_precision(events_.empty() ? 0 : to_seconds(events_.first_time() - now_));
    while (!events_.empty() && (on_network_ == 0 || events_.first_time() <= std::max(armed_, now_))) {
      const Scheduled event = events_.take_first();
      now_ = event.time;
      event.task.handler->handle(event.task.code, event.task.argument);
      ++count_;
    }
    arm();
  }

  // Drops completed communications here, because SimGrid must not lose the last reference to one while it completes it.
  void release() {
    parked_.clear();
    for (const RoutedLink* limiter : spent_limiters_) network_.give_back(limiter);
    spent_limiters_.clear();
  }

  SimGridNetwork::Impl& network_;
  // The same moment in the loop's time and on SimGrid's clock, before which SimGrid had no flows.
  Time now_before_ = 0;
  double clock_before_;         // s
  std::size_t on_network_ = 0;  // flows that SimGrid runs
  std::vector<Users> users_;    // by LinkId
  double precision_ = 0;        // s
  EventHeap events_;
  FlowSlots<Running> flows_;
  std::vector<s4u::CommPtr> parked_;
  std::vector<const RoutedLink*> spent_limiters_;
  std::vector<LinkChange> changes_;
  std::vector<FlowFailure> failures_;
  Timer* timer_ = nullptr;
  Time armed_ = 0, now_ = 0;
  std::uint64_t count_ = 0;
  bool abandoned_ = false;
};

bool SimGridNetwork::Impl::register_completion() {
  s4u::Activity::on_completion_cb([](const s4u::Activity& activity) {
    if (engine_owner != nullptr && engine_owner->loop_ != nullptr) engine_owner->loop_->completed(activity);
  });
  return true;
}

model::Result<void> on_own_stack(std::size_t links, const std::function<void()>& work) {
  const std::size_t bytes = stack_of_work + stack_per_link * links;
  if (bytes > most_stack)
    return model::infeasible("", fmt::format("{} links are more than SimGrid's solver can recurse over", links),
                             "take a smaller cluster");
  std::packaged_task<void()> task(work);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::packaged_task<void()>*>(argument))();
    return nullptr;
  };
  const int failure = pthread_create(&thread, &attributes, run, &task);
  pthread_attr_destroy(&attributes);
  // Where a system starts no more threads, that of the caller does for small networks.
  if (failure != 0 && 2 * stack_per_link * links <= stack_size()) {
    task();
  } else if (failure != 0) {
    return model::infeasible("",
                             fmt::format("no thread with a stack of {} MiB for SimGrid's solver can be started: {}",
                                         bytes >> 20, std::strerror(failure)),
                             "give it more memory and threads (ulimit -v, ulimit -u), or take a smaller cluster");
  }
  if (failure == 0) pthread_join(thread, nullptr);
  task.get_future().get();
  return {};
}

SimGridNetwork::SimGridNetwork(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SimGridNetwork::SimGridNetwork(SimGridNetwork&&) noexcept = default;
SimGridNetwork& SimGridNetwork::operator=(SimGridNetwork&&) noexcept = default;
SimGridNetwork::~SimGridNetwork() = default;

model::Result<SimGridNetwork> SimGridNetwork::make(const std::vector<Link>& links, std::size_t limited_flows) {
  if (Impl::owner() != nullptr)
    return model::infeasible("", "SimGrid runs one network per process",
                             "destroy the one that is alive before making another");
  if (auto error = find_link_fault(links)) return tl::unexpected(*error);
  return SimGridNetwork(std::make_unique<Impl>(links, limited_flows));
}

SimGridLoop::SimGridLoop(SimGridNetwork& network) : impl_(std::make_unique<Impl>(*network.impl_)) {}
SimGridLoop::~SimGridLoop() = default;
Time SimGridLoop::now() const { return impl_->now(); }
void SimGridLoop::at(Time time, const Task& task) { impl_->at(time, task); }
FlowId SimGridLoop::flow(const Flow& flow, const Task& done) { return impl_->flow(flow, done); }
void SimGridLoop::set_rate_limit(FlowId flow, double rate_limit) { impl_->set_rate_limit(flow, rate_limit); }
model::Result<void> SimGridLoop::change(const LinkChange& change) { return impl_->change(change); }
std::uint64_t SimGridLoop::run() { return impl_->run(); }
const std::vector<FlowFailure>& SimGridLoop::failures() const { return impl_->failures(); }

}  // namespace plumbline::sim
