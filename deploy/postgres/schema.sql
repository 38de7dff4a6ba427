-- The last summary and the last facets of every entity, as the worker published them.
-- Columns are named as the fields of the messages (schemas/*.schema.json). It can be applied again.

CREATE TABLE IF NOT EXISTS summaries (
    entity_id text PRIMARY KEY,
    epoch integer NOT NULL,
    sequence bigint NOT NULL,
    previous_sequence bigint,
    sentences jsonb NOT NULL CHECK (jsonb_typeof(sentences) = 'array'),
    added jsonb NOT NULL,
    removed jsonb NOT NULL,
    review_count bigint NOT NULL,
    sentence_count bigint NOT NULL,
    k integer NOT NULL,
    cause jsonb NOT NULL,
    occurred_at text,  -- RFC 3339 as given: timestamptz lacks some of its years and zones
    embedding_model text,
    algorithm text NOT NULL,
    ratings jsonb
);

CREATE TABLE IF NOT EXISTS facets (
    entity_id text PRIMARY KEY,
    epoch integer NOT NULL,
    sequence bigint NOT NULL,
    previous_sequence bigint,
    changed jsonb NOT NULL,
    review_count bigint NOT NULL,
    sentence_count bigint NOT NULL,
    facets jsonb NOT NULL CHECK (jsonb_typeof(facets) = 'array'),
    cause jsonb NOT NULL,
    occurred_at text,
    embedding_model text,
    algorithm text NOT NULL,
    ratings jsonb
);

-- The next offset to read; changed in the transaction that changes the rows. Only consumer.py
-- needs it: Kafka Connect keeps its offsets in Kafka.
CREATE TABLE IF NOT EXISTS kafka_offsets (
    topic text,
    partition integer,
    next_offset bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- An update never brings an older row back, whoever writes: Kafka Connect repeats messages after
-- a crash.
CREATE OR REPLACE FUNCTION keep_newer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.epoch, NEW.sequence) < (OLD.epoch, OLD.sequence) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER keep_newer BEFORE UPDATE ON summaries
    FOR EACH ROW EXECUTE FUNCTION keep_newer();
CREATE OR REPLACE TRIGGER keep_newer BEFORE UPDATE ON facets
    FOR EACH ROW EXECUTE FUNCTION keep_newer();

-- Ids of more than 2,600 bytes do not fit into the index of a primary key. Their rows have a hash
-- index in tables that inherit: queries, deletions and views of the others include them.
CREATE TABLE IF NOT EXISTS long_summaries (
    EXCLUDE USING hash (entity_id WITH =)
) INHERITS (summaries);
CREATE TABLE IF NOT EXISTS long_facets (
    EXCLUDE USING hash (entity_id WITH =)
) INHERITS (facets);

CREATE OR REPLACE TRIGGER keep_newer BEFORE UPDATE ON long_summaries
    FOR EACH ROW EXECUTE FUNCTION keep_newer();
CREATE OR REPLACE TRIGGER keep_newer BEFORE UPDATE ON long_facets
    FOR EACH ROW EXECUTE FUNCTION keep_newer();

CREATE OR REPLACE FUNCTION keep_long() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DELETE FROM long_%s WHERE entity_id = $1 AND (epoch, sequence) <= ($2, $3)',
        TG_TABLE_NAME) USING NEW.entity_id, NEW.epoch, NEW.sequence;
    EXECUTE format('INSERT INTO long_%s SELECT ($1).* ON CONFLICT DO NOTHING', TG_TABLE_NAME)
        USING NEW;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER keep_long BEFORE INSERT ON summaries
    FOR EACH ROW WHEN (octet_length(NEW.entity_id) > 2600) EXECUTE FUNCTION keep_long();
CREATE OR REPLACE TRIGGER keep_long BEFORE INSERT ON facets
    FOR EACH ROW WHEN (octet_length(NEW.entity_id) > 2600) EXECUTE FUNCTION keep_long();

-- One row for each sentence of a summary.
CREATE OR REPLACE VIEW summary_sentences AS
SELECT entity_id, sentence.*
FROM summaries, jsonb_to_recordset(sentences) AS sentence (
    rank integer, sentence_id text, review_id text, text text, rating double precision,
    occurred_at text, language text, distance double precision, support bigint,
    verified boolean, country text, author_id text
);

-- One row for each facet of an entity, and one for each sentence of a facet. With facets in several
-- languages a facet is named by its name and its language.
CREATE OR REPLACE VIEW entity_facets AS
SELECT
    entity_id, facet.name, facet.k, facet.sentence_count, facet.review_count,
    (facet.ratings ->> 'count')::bigint AS rating_count,
    (facet.ratings ->> 'mean')::double precision AS rating_mean,
    facet.ratings -> 'histogram' AS rating_histogram,
    facet.sentences, facet.language,
    (facet.mentions ->> 'review_count')::bigint AS mention_count,
    facet.mentions -> 'ratings' AS mention_ratings
FROM facets, jsonb_to_recordset(facets.facets) AS facet (
    name text, k integer, sentence_count bigint, review_count bigint, ratings jsonb,
    sentences jsonb, language text, mentions jsonb
);

CREATE OR REPLACE VIEW facet_sentences AS
SELECT entity_id, name AS facet, sentence.*, entity_facets.language AS facet_language
FROM entity_facets, jsonb_to_recordset(sentences) AS sentence (
    rank integer, sentence_id text, review_id text, text text, rating double precision,
    occurred_at text, language text, distance double precision, support bigint,
    verified boolean, country text, author_id text
);
