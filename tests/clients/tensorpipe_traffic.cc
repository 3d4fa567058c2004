// SPDX-License-Identifier: MIT
// Tensors over tensorpipe's ibv transport, through several pipes at once. One process listens and
// sends everything back with its bits inverted; the other one sends, and compares what it gets.
//
//     tensorpipe_traffic listen CHANNEL         prints the URL; ends when its peer has closed
//     tensorpipe_traffic connect CHANNEL URL
//
// CHANNEL is how tensors travel: "basic" in the pipe's own connection, "mpt" in lanes beside it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tensorpipe/tensorpipe.h>

static const int PIPES = 3, ROUNDS = 6, LANES = 2;
// Around the 2 MiB of the transport's rings, and the sizes that computers like.
static const size_t SIZES[] = {1, 7, 4096, 65537, (2 << 20) - 1, 5 << 20};
static const char PEER_CLOSED[] = "eof";

using Bytes = std::vector<uint8_t>;
using SharedPipe = std::shared_ptr<tensorpipe::Pipe>;

struct Parcel {
	std::string title;
	Bytes payload;
	std::vector<Bytes> tensors;
};

// A callback's news, for a thread that waits for them.
template <typename Value> class Answer
{
      public:
	void give(const tensorpipe::Error &error, Value value)
	{
		if (error)
			promise.set_exception(
				std::make_exception_ptr(std::runtime_error(error.what())));
		else
			promise.set_value(std::move(value));
	}

	Value get()
	{
		return promise.get_future().get();
	}

      private:
	std::promise<Value> promise;
};

static std::shared_ptr<tensorpipe::channel::Context>
lanes(const std::function<std::shared_ptr<tensorpipe::transport::Context>()> &transport)
{
	std::vector<std::shared_ptr<tensorpipe::transport::Context>> contexts;
	std::vector<std::shared_ptr<tensorpipe::transport::Listener>> listeners;
	for (int i = 0; i < LANES; i++) {
		contexts.push_back(transport());
		listeners.push_back(contexts.back()->listen("127.0.0.1"));
	}
	return tensorpipe::channel::mpt::create(std::move(contexts), std::move(listeners));
}

// Nothing else is registered, so whatever moves goes through the device.
static std::shared_ptr<tensorpipe::Context> context_with(const std::string &channel)
{
	auto transport = [] {
		auto created = tensorpipe::transport::ibv::create();
		if (created == nullptr || !created->isViable())
			throw std::runtime_error("the ibv transport finds no device");
		return created;
	};
	auto context = std::make_shared<tensorpipe::Context>();
	context->registerTransport(0, "ibv", transport());
	if (channel == "basic")
		context->registerChannel(0, channel, tensorpipe::channel::basic::create());
	else if (channel == "mpt")
		context->registerChannel(0, channel, lanes(transport));
	else
		throw std::runtime_error("no channel " + channel);
	return context;
}

static std::future<void> send(tensorpipe::Pipe &pipe, Parcel &parcel)
{
	auto sent = std::make_shared<std::promise<void>>();
	tensorpipe::Message message;
	message.metadata = parcel.title;
	message.payloads.push_back({parcel.payload.data(), parcel.payload.size(), "payload"});
	for (Bytes &tensor : parcel.tensors) {
		tensorpipe::Message::Tensor described;
		described.buffer = tensorpipe::CpuBuffer{tensor.data()};
		described.length = tensor.size();
		message.tensors.push_back(described);
	}
	pipe.write(std::move(message), [sent](const tensorpipe::Error &error) {
		if (error)
			sent->set_exception(
				std::make_exception_ptr(std::runtime_error(error.what())));
		else
			sent->set_value();
	});
	return sent->get_future();
}

static Parcel receive(tensorpipe::Pipe &pipe)
{
	Answer<tensorpipe::Descriptor> described;
	pipe.readDescriptor([&](const tensorpipe::Error &error, tensorpipe::Descriptor descriptor) {
		described.give(error, std::move(descriptor));
	});
	tensorpipe::Descriptor descriptor = described.get();

	Parcel parcel;
	tensorpipe::Allocation allocation;
	parcel.title = descriptor.metadata;
	parcel.payload.resize(descriptor.payloads.at(0).length);
	allocation.payloads.push_back({parcel.payload.data()});
	for (const auto &tensor : descriptor.tensors)
		parcel.tensors.emplace_back(tensor.length);
	for (Bytes &tensor : parcel.tensors)
		allocation.tensors.push_back({tensorpipe::CpuBuffer{tensor.data()}});

	Answer<bool> read;
	pipe.read(std::move(allocation),
		  [&](const tensorpipe::Error &error) { read.give(error, true); });
	read.get();
	return parcel;
}

static Bytes pattern(size_t size, uint32_t seed)
{
	Bytes bytes(size);
	for (uint8_t &byte : bytes) {
		seed = seed * 1664525 + 1013904223;
		byte = seed >> 24;
	}
	return bytes;
}

static Bytes inverted(Bytes bytes)
{
	for (uint8_t &byte : bytes)
		byte = ~byte;
	return bytes;
}

static Parcel parcel_of(int pipe, int round)
{
	Parcel parcel;
	uint32_t seed = (pipe * ROUNDS + round) * 100;
	parcel.title = "parcel " + std::to_string(pipe) + "." + std::to_string(round);
	parcel.payload = pattern(1 + 1000 * round, seed);
	for (size_t size : SIZES)
		parcel.tensors.push_back(pattern(size, ++seed));
	return parcel;
}

static Parcel answer_to(Parcel parcel)
{
	parcel.title += " back";
	parcel.payload = inverted(std::move(parcel.payload));
	for (Bytes &tensor : parcel.tensors)
		tensor = inverted(std::move(tensor));
	return parcel;
}

// Return: number of bytes that came back.
static size_t send_and_compare(tensorpipe::Pipe &pipe, int number)
{
	std::vector<Parcel> parcels;
	std::vector<std::future<void>> sent;
	size_t bytes = 0;
	for (int round = 0; round < ROUNDS; round++)
		parcels.push_back(parcel_of(number, round));
	for (Parcel &parcel : parcels)
		sent.push_back(send(pipe, parcel));
	for (const Parcel &parcel : parcels) {
		Parcel wanted = answer_to(parcel), got = receive(pipe);
		if (got.title != wanted.title)
			throw std::runtime_error("not " + wanted.title + ", but " + got.title);
		if (got.payload != wanted.payload || got.tensors != wanted.tensors)
			throw std::runtime_error("wrong bytes in " + got.title);
		for (const Bytes &tensor : got.tensors)
			bytes += tensor.size();
	}
	for (std::future<void> &one : sent)
		one.get();
	return bytes;
}

static size_t send_all_back(tensorpipe::Pipe &pipe)
{
	size_t bytes = 0;
	for (int round = 0; round < ROUNDS; round++) {
		Parcel parcel = answer_to(receive(pipe));
		send(pipe, parcel).get();
		for (const Bytes &tensor : parcel.tensors)
			bytes += tensor.size();
	}
	return bytes;
}

// The peer has closed, and there is nothing more to read.
static void expect_end(tensorpipe::Pipe &pipe)
{
	std::promise<std::string> end;
	pipe.readDescriptor([&](const tensorpipe::Error &error, tensorpipe::Descriptor) {
		end.set_value(error ? error.what() : "one parcel too many");
	});
	std::string said = end.get_future().get();
	if (said.compare(0, strlen(PEER_CLOSED), PEER_CLOSED) != 0)
		throw std::runtime_error("not the end, but: " + said);
}

// Return: bytes of all pipes. Each has a thread of its own, as RPC agents do it.
static size_t in_threads(const std::vector<SharedPipe> &pipes,
			 const std::function<size_t(tensorpipe::Pipe &, int)> &work)
{
	std::vector<std::future<size_t>> results;
	size_t bytes = 0;
	for (size_t i = 0; i < pipes.size(); i++)
		results.push_back(std::async(std::launch::async, [&work, &pipes, i] {
			return work(*pipes[i], static_cast<int>(i));
		}));
	for (std::future<size_t> &result : results)
		bytes += result.get();
	return bytes;
}

static size_t listen_side(tensorpipe::Context &context)
{
	auto listener = context.listen({"ibv://127.0.0.1"});
	std::vector<SharedPipe> pipes;
	printf("%s\n", listener->url("ibv").c_str());
	fflush(stdout);
	for (int i = 0; i < PIPES; i++) {
		Answer<SharedPipe> accepted;
		listener->accept([&](const tensorpipe::Error &error, SharedPipe pipe) {
			accepted.give(error, std::move(pipe));
		});
		pipes.push_back(accepted.get());
	}
	return in_threads(pipes, [](tensorpipe::Pipe &pipe, int) {
		size_t bytes = send_all_back(pipe);
		expect_end(pipe);
		return bytes;
	});
}

static size_t connect_side(tensorpipe::Context &context, const std::string &url)
{
	std::vector<SharedPipe> pipes;
	for (int i = 0; i < PIPES; i++)
		pipes.push_back(context.connect(url));
	return in_threads(pipes, send_and_compare);
}

int main(int argc, char **argv)
try {
	std::vector<std::string> words(argv + 1, argv + argc);
	bool listens = words.size() == 2 && words[0] == "listen";
	if (!listens && !(words.size() == 3 && words[0] == "connect")) {
		fprintf(stderr, "usage: %s listen CHANNEL | connect CHANNEL URL\n", argv[0]);
		return 2;
	}
	auto context = context_with(words[1]);
	size_t bytes = listens ? listen_side(*context) : connect_side(*context, words[2]);
	context->close();
	context->join();
	printf("%zu bytes of tensors, all correct\n", bytes);
	return 0;
} catch (const std::exception &failed) {
	fprintf(stderr, "failed: %s\n", failed.what());
	return 1;
}
