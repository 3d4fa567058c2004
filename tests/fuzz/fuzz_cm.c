/* SPDX-License-Identifier: MIT */
/*
 * Any bytes, twice: as a message of connection management, and as the rest of one behind a header
 * that is right. Whatever is understood must survive being written and read again; so must the
 * addresses that its private data may have.
 */
#include <string.h>

#include "lib/check.h"
#include "wire/cm_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void addresses(const uint8_t *data)
{
	uint8_t bytes[AV_CM_IP_BYTES];
	struct av_cm_ip ip, again;

	if (!av_cm_ip_get(&ip, data))
		return;
	av_cm_ip_put(&ip, bytes);
	CHECK(av_cm_ip_get(&again, bytes) && memcmp(&ip, &again, sizeof(ip)) == 0);
}

static bool message(const uint8_t *data, size_t size)
{
	struct av_cm_message m, again;
	uint8_t bytes[AV_MAD_BYTES];

	if (!av_cm_get(&m, data, size))
		return false;
	CHECK(m.info_bytes <= sizeof(m.info));
	CHECK(av_cm_private_bytes(m.attribute) > 0 && av_cm_attribute_name(m.attribute) != NULL);
	CHECK(av_cm_put(&m, bytes));
	CHECK(av_cm_get(&again, bytes, sizeof(bytes)) && memcmp(&m, &again, sizeof(m)) == 0);
	addresses(m.private_data);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t right[] = {1, 7, 2, 3};
	uint8_t mended[AV_MAD_BYTES] = {0};

	message(data, size);
	if (size == 0 || size > sizeof(mended))
		return 0;
	memcpy(mended, data, size);
	memcpy(mended, right, sizeof(right));
	mended[16] = 0;
	mended[17] = (uint8_t)(AV_CM_REQ + data[0] % (AV_CM_APR - AV_CM_REQ + 1));
	CHECK(message(mended, sizeof(mended)));
	return 0;
}
