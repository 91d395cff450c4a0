// Calls functions of OpenSSL's libcrypto, and prints what each computes.
#include <openssl/aes.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/cmac.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/objects.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned functions;
static unsigned char text[4096], key[64], nonce[16];

static void show(const char *name, const unsigned char *bytes, size_t length) {
    functions++;
    printf("%s: ", name);
    for (size_t i = 0; i < length; i++) printf("%02x", bytes[i]);
    printf("\n");
}

static void digest(const char *name) {
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    const EVP_MD *kind = EVP_get_digestbyname(name);
    if (kind == NULL || EVP_Digest(text, sizeof text, out, &length, kind, NULL) != 1) abort();
    show(name, out, length);
}

static void cipher(const char *name) {
    static unsigned char out[sizeof text + 64], back[sizeof text + 64];
    unsigned char tag[16], sum[32];
    int length = 0, more = 0, plain = 0;
    EVP_CIPHER *kind = EVP_CIPHER_fetch(NULL, name, NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (kind == NULL || context == NULL) abort();
    int has_tag = (EVP_CIPHER_get_flags(kind) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0;
    if (EVP_EncryptInit_ex2(context, kind, key, nonce, NULL) != 1) abort();
    if (EVP_EncryptUpdate(context, out, &length, text, sizeof text) != 1) abort();
    if (EVP_EncryptFinal_ex(context, out + length, &more) != 1) abort();
    length += more;
    if (has_tag && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag) != 1) abort();
    if (EVP_DecryptInit_ex2(context, kind, key, nonce, NULL) != 1) abort();
    if (has_tag && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag) != 1) abort();
    if (EVP_DecryptUpdate(context, back, &plain, out, length) != 1) abort();
    if (EVP_DecryptFinal_ex(context, back + plain, &more) != 1) abort();
    if (plain + more != sizeof text || memcmp(back, text, sizeof text) != 0) abort();
    SHA256(out, length, sum);
    show(name, has_tag ? tag : sum, has_tag ? sizeof tag : sizeof sum);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(kind);
}

static void keys_from(const char *name, int type) {
    unsigned char public[64], out[128];
    size_t length = sizeof public, signed_length = sizeof out;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(type, NULL, key, 32);
    if (pair == NULL || EVP_PKEY_get_raw_public_key(pair, public, &length) != 1) abort();
    show(name, public, length);
    if (type == EVP_PKEY_ED25519) {
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        if (EVP_DigestSignInit(context, NULL, NULL, NULL, pair) != 1) abort();
        if (EVP_DigestSign(context, out, &signed_length, text, 100) != 1) abort();
        show("Ed25519 signature", out, signed_length);
        EVP_MD_CTX_free(context);
    }
    EVP_PKEY_free(pair);
}

static void numbers(void) {
    BN_CTX *context = BN_CTX_new();
    BIGNUM *base = BN_bin2bn(text, 256, NULL), *power = BN_bin2bn(text + 256, 64, NULL);
    BIGNUM *modulus = BN_bin2bn(text + 512, 256, NULL), *result = BN_new();
    unsigned char out[256];
    BN_set_bit(modulus, 0);
    if (BN_mod_exp(result, base, power, modulus, context) != 1) abort();
    show("BN_mod_exp", out, BN_bn2bin(result, out));
    if (BN_gcd(result, base, modulus, context) != 1) abort();
    show("BN_gcd", out, BN_bn2bin(result, out));
    if (BN_mul(result, power, power, context) != 1) abort();
    show("BN_mul", out, BN_bn2bin(result, out));
    if (BN_div(result, NULL, base, power, context) != 1) abort();
    show("BN_div", out, BN_bn2bin(result, out));
    BN_set_word(result, 2147483647);
    printf("BN_check_prime: %d\n", BN_check_prime(result, context, NULL));
    functions++;
    BN_free(base), BN_free(power), BN_free(modulus), BN_free(result), BN_CTX_free(context);
}

static void curve(int number) {
    EC_GROUP *group = EC_GROUP_new_by_curve_name(number);
    EC_POINT *point = EC_POINT_new(group);
    BIGNUM *scalar = BN_bin2bn(key, 31, NULL);
    unsigned char out[256];
    if (EC_POINT_mul(group, point, scalar, NULL, NULL, NULL) != 1) abort();
    size_t length =
        EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, out, sizeof out, NULL);
    show(OBJ_nid2sn(number), out, length);
    EC_POINT_free(point), EC_GROUP_free(group), BN_free(scalar);
}

static void rsa(void) {
    EVP_PKEY *pair = EVP_RSA_gen(1024);
    unsigned char out[256], back[256];
    size_t length = sizeof out;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (pair == NULL || EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, pair) != 1) abort();
    if (EVP_DigestSign(context, out, &length, text, sizeof text) != 1) abort();
    EVP_MD_CTX *check = EVP_MD_CTX_new();
    if (EVP_DigestVerifyInit(check, NULL, EVP_sha256(), NULL, pair) != 1) abort();
    int right = EVP_DigestVerify(check, out, length, text, sizeof text);
    out[5] ^= 1;
    int changed = EVP_DigestVerify(check, out, length, text, sizeof text);
    printf("RSA: %zu bytes, right %d, changed %d\n", length, right, changed);
    functions++;
    BIO *memory = BIO_new(BIO_s_mem());
    if (PEM_write_bio_PUBKEY(memory, pair) != 1) abort();
    if (BIO_gets(memory, (char *)back, sizeof back) <= 0) abort();
    printf("PEM: %s", back);
    functions++;
    BIO_free(memory), EVP_MD_CTX_free(context), EVP_MD_CTX_free(check), EVP_PKEY_free(pair);
}

static void derived(void) {
    unsigned char out[64];
    if (PKCS5_PBKDF2_HMAC("password", 8, nonce, 16, 1000, EVP_sha512(), 64, out) != 1) abort();
    show("PBKDF2", out, sizeof out);
    if (EVP_PBE_scrypt("password", 8, nonce, 16, 1024, 8, 1, 0, out, 64) != 1) abort();
    show("scrypt", out, sizeof out);
    unsigned length = 0;
    HMAC(EVP_sha384(), key, sizeof key, text, sizeof text, out, &length);
    show("HMAC", out, length);
    size_t written = 0;
    unsigned char *made;
    made = EVP_Q_mac(NULL, "CMAC", NULL, "AES-128-CBC", NULL, key, 16, text, 100, out, 64, &written);
    if (made == NULL) abort();
    show("CMAC", out, written);
    made = EVP_Q_mac(NULL, "SIPHASH", NULL, NULL, NULL, key, 16, text, 100, out, 64, &written);
    if (made == NULL) abort();
    show("SipHash", out, written);
    EVP_KDF *kind = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kind);
    OSSL_PARAM how[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, "SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, sizeof key),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, nonce, sizeof nonce),
        OSSL_PARAM_construct_end(),
    };
    if (EVP_KDF_derive(context, out, sizeof out, how) != 1) abort();
    show("HKDF", out, sizeof out);
    EVP_KDF_CTX_free(context), EVP_KDF_free(kind);
}

static void texts(void) {
    unsigned char out[256];
    EVP_EncodeBlock(out, text, 90);
    printf("base64: %s\n", out);
    printf("OBJ_txt2nid: %d %s\n", OBJ_txt2nid("1.2.840.113549.1.1.11"), OBJ_nid2ln(672));
    ASN1_TIME *time = ASN1_TIME_set(NULL, 1700000000);
    BIO *memory = BIO_new(BIO_s_mem());
    ASN1_TIME_print(memory, time);
    int length = BIO_read(memory, out, sizeof out);
    printf("ASN1_TIME: %.*s\n", length, out);
    X509_NAME *name = X509_NAME_new();
    const unsigned char *words = (const unsigned char *)"a name";
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, words, -1, -1, 0);
    printf("X509_NAME: %s\n", X509_NAME_oneline(name, (char *)out, sizeof out));
    const unsigned char wrong[] = {0x30, 0x05, 0x02};
    const unsigned char *at = wrong;
    printf("d2i_X509: %p\n", (void *)d2i_X509(NULL, &at, sizeof wrong));
    ERR_error_string_n(ERR_peek_error(), (char *)out, sizeof out);
    printf("error: %s\n", out);
    functions += 6;
    ASN1_TIME_free(time), BIO_free(memory), X509_NAME_free(name);
}

int main(void) {
    for (unsigned i = 0; i < sizeof text; i++) text[i] = (unsigned char)(i * 131 + (i >> 5));
    for (unsigned i = 0; i < sizeof key; i++) key[i] = (unsigned char)(i * 7 + 1);
    for (unsigned i = 0; i < sizeof nonce; i++) nonce[i] = (unsigned char)(i + 100);
    const char *digests[] = {"SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "SHA3-256", "SHA3-512",
                             "SHAKE128", "MD5", "BLAKE2b512", "BLAKE2s256", "SM3"};
    for (unsigned i = 0; i < sizeof digests / sizeof *digests; i++) digest(digests[i]);
    const char *ciphers[] = {"AES-128-CBC", "AES-256-CTR", "AES-256-GCM", "AES-128-OCB",
                             "AES-128-XTS", "ChaCha20", "ChaCha20-Poly1305", "CAMELLIA-256-CBC",
                             "ARIA-128-CTR", "DES-EDE3-CBC", "SM4-CBC"};
    for (unsigned i = 0; i < sizeof ciphers / sizeof *ciphers; i++) cipher(ciphers[i]);
    numbers();
    curve(NID_X9_62_prime256v1), curve(NID_secp384r1), curve(NID_secp521r1), curve(NID_secp256k1);
    keys_from("X25519", EVP_PKEY_X25519), keys_from("Ed25519", EVP_PKEY_ED25519);
    derived();
    rsa();
    texts();
    unsigned char random[2][16];
    if (RAND_bytes(random[0], 16) != 1 || RAND_bytes(random[1], 16) != 1) abort();
    printf("RAND_bytes: %d, %u functions\n", memcmp(random[0], random[1], 16) != 0, ++functions);
    return 23;
}
