// Work noted for graphs, on one stream or several, and launched.
#include <algorithm>
#include <utility>
#include <vector>

#include "queues.h"

namespace mt::emulation {

Queue*& capturing() {
  thread_local Queue* stream = nullptr;
  return stream;
}

cudaError_t break_capture(Queue* of, cudaError_t error) {
  if (Captured* c = (of ? of : capturing())->capture.get()) c->broken = true;
  return say(error);
}

void note(Queue& q, Node node) {
  Captured& c = *q.capture;
  node.branch = q.branch;
  c.nodes.push_back(std::move(node));
  const auto mine = static_cast<std::size_t>(q.branch);
  ++c.seen[mine][mine];
}

cudaError_t note_wait(Queue& q, const Moment& event) {
  if (event.capture->over) return say(cudaErrorCapturedEvent);
  if (q.capture && q.capture != event.capture) return break_capture(&q, cudaErrorStreamCaptureIsolation);
  Captured& c = *event.capture;
  if (!q.capture) {
    q.capture = event.capture;
    q.branch = static_cast<int>(c.streams.size());
    c.streams.push_back(q.shared_from_this());
    for (Lengths& l : c.seen) l.push_back(0);
    c.seen.emplace_back(c.streams.size(), 0);
  }
  auto& mine = c.seen[static_cast<std::size_t>(q.branch)];
  for (std::size_t b = 0; b < event.seen.size(); ++b)
    if (static_cast<int>(b) != q.branch) mine[b] = std::max(mine[b], event.seen[b]);
  if (event.branch != q.branch) note(q, {0, {}, event.branch, event.seen[static_cast<std::size_t>(event.branch)]});
  return cudaSuccess;
}

void note_event(Queue& q, Moment& event) {
  event = {};
  event.capture = q.capture;
  event.branch = q.branch;
  event.seen = q.capture->seen[static_cast<std::size_t>(q.branch)];
}

bool is_captured(Queue* stream) { return stream->capture != nullptr; }

}  // namespace mt::emulation

using namespace mt::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Lock lock(streams().mutex);
  if (capturing() || stream->capture) return say(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_shared<Captured>();
  stream->capture->streams.push_back(stream->shared_from_this());
  stream->capture->seen.push_back({0});
  stream->branch = 0;
  capturing() = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(streams().mutex);
  *graph = nullptr;
  if (stream != capturing()) return say(cudaErrorInvalidValue);
  capturing() = nullptr;
  const std::shared_ptr<Captured> captured = stream->capture;
  captured->over = true;
  for (const auto& q : std::exchange(captured->streams, {})) q->capture = nullptr;
  std::vector<Node> nodes = std::exchange(captured->nodes, {});  // events know the rest for as long as they like
  if (captured->broken) return say(cudaErrorStreamCaptureInvalidated);
  for (std::size_t b = 0; b < captured->seen.size(); ++b)
    if (captured->seen[0][b] < captured->seen[b][b]) return say(cudaErrorStreamCaptureUnjoined);
  *graph = new Captured{std::move(nodes), {}, captured->seen, false, true};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  const Lock lock(streams().mutex);
  *ready = new Launchable{graph->nodes, {}};
  for (std::size_t b = 1; b < graph->seen.size(); ++b) (*ready)->branches.push_back(make_queue(current_device()));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const Lock lock(streams().mutex);
  if (capturing()) return break_capture();
  std::vector<std::shared_ptr<Queue>> queues{stream->shared_from_this()};
  queues.insert(queues.end(), graph->branches.begin(), graph->branches.end());
  Lengths before;
  for (const auto& q : queues) before.push_back(q->pushed);
  for (const Node& n : graph->nodes) {
    Queue& q = *queues[static_cast<std::size_t>(n.branch)];
    Entry e = n.entry;
    if (n.other >= 0) {
      e.other = queues[static_cast<std::size_t>(n.other)];
      e.until = before[static_cast<std::size_t>(n.other)] + n.until;
    }
    if (e.together) {
      e.together = e.together->again();
      e.together->stream = q.shared_from_this();
      e.together->before = q.pushed;
    }
    push(q, std::move(e));
  }
  streams().mutex.tell_news();
  return cudaSuccess;
}
// What was launched of it runs to its end.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const Lock lock(streams().mutex);
  for (const auto& b : graph->branches) std::erase(streams().all, b);
  delete graph;
  return cudaSuccess;
}
